//! Addresses for programs that a test starts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// An address of this machine that a program can be told to listen on.
///
/// Its port has just had a connection. So for a minute, the kernel gives it to nobody who asks for any port, and another
/// test can't get it before the program has it.
///
/// # Errors
/// The system refuses a socket.
pub fn free() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let _client = TcpStream::connect(address)?;
    // The side that closes first keeps the port. That must be the listener's.
    drop(listener.accept()?);
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_address_is_given_to_nobody_else_and_can_be_bound() {
        let mut given = std::collections::BTreeSet::new();
        for _ in 0..300 {
            assert!(given.insert(free().unwrap().port()));
            let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
            assert!(!given.contains(&other.port()));
        }
        TcpListener::bind(free().unwrap()).unwrap();
    }
}
