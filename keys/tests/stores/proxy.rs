//! A way to a server that can be cut, and can go silent.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the way does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Connections are closed.
    Cut,
    /// Connections stay, and nothing passes.
    Silent,
}

pub struct Proxy {
    pub port: u16,
    way: watch::Sender<Way>,
    /// Ends with the proxy, and its connections with it.
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (way, watched) = watch::channel(Way::Open);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                connections.spawn(carry(client, server, watched.clone()));
            }
        });
        Self { port, way, _tasks: tasks }
    }

    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut way: watch::Receiver<Way>) {
    let now = *way.borrow_and_update();
    match now {
        Way::Cut => {}
        Way::Silent => drop(way.changed().await),
        Way::Open => {
            let Ok(mut server) = TcpStream::connect(server).await else { return };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                _ = way.changed() => {}
            }
            // A connection that was silent lost bytes, so it ends with the silence.
            let now = *way.borrow_and_update();
            if now == Way::Silent {
                let _ = way.changed().await;
            }
        }
    }
}
