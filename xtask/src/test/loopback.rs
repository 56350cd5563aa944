//! Checks that the tests' servers listen on loopback only. Their passwords are public, and Erlang's distribution port
//! gives the whole node to anyone with the cookie.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use anyhow::{Result, ensure};

use crate::{process, services::set::Set};

/// Fails if a server of the set, or one of its child processes, listens on an address that others can reach.
pub(crate) fn check(set: &Set) -> Result<()> {
    let mut seen = 0;
    let mut open = Vec::new();
    for (service, running) in set.services() {
        let parents = running.helpers.iter().chain([&running.main]).map(|process| process.pid);
        let family = parents.flat_map(|pid| process::descendants(pid).into_iter().map(|child| child.pid).chain([pid]));
        let theirs: BTreeSet<u64> = family.flat_map(sockets).collect();
        for (address, port, _) in listeners()?.into_iter().filter(|(_, _, socket)| theirs.contains(socket)) {
            seen += 1;
            if !address.to_canonical().is_loopback() {
                open.push(format!("{} listens on {address}, port {port}", service.name()));
            }
        }
    }
    ensure!(seen > 0, "no server was seen to listen");
    ensure!(open.is_empty(), "{}", open.join("; "));
    Ok(())
}

/// Inodes of the sockets that a process holds.
fn sockets(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter_map(|to| to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// Every TCP socket that listens in this network namespace: address, port and inode.
fn listeners() -> Result<Vec<(IpAddr, u16, u64)>> {
    let mut found = Vec::new();
    for file in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        // The second file is missing if IPv6 is switched off.
        found.extend(fs::read_to_string(file).unwrap_or_default().lines().filter_map(listener));
    }
    ensure!(!found.is_empty(), "no listening socket was found in /proc/self/net/tcp");
    Ok(found)
}

/// Reads a line of `/proc/net/tcp` or `tcp6`; `None` unless the socket listens (state `0A`). See proc_pid_net(5).
fn listener(line: &str) -> Option<(IpAddr, u16, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (address, port) = local.split_once(':').filter(|_| *state == "0A")?;
    // Each 32-bit word is printed as the number that this machine reads from the bytes in network order.
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let address = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?))
        }
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_is_found_with_its_address_and_its_socket() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            // A machine may have no IPv6.
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let bound = socket.local_addr().unwrap();
            let found =
                listeners().unwrap().into_iter().find(|(ip, port, _)| (*ip, *port) == (bound.ip(), bound.port()));
            let (ip, _, inode) = found.unwrap_or_else(|| panic!("{bound} was not found"));
            assert_eq!(ip.to_canonical().is_loopback(), address.starts_with("127") || address.starts_with("[::1]"));
            assert!(sockets(std::process::id() as i32).contains(&inode));
        }
    }
}
