//! Lists directories, and finds paths by patterns.

use rustix::fs::readlinkat;

use super::failure::because;
use super::glob::Glob;
use super::paths;
use super::walk::{DEEPEST, Room, Walk};
use crate::frames::{ByteString, Entry, Failure, FileKind, Found, Listing};

pub(super) fn list(path: &ByteString, depth: u32, most: u32) -> Result<Listing, Failure> {
    let (mut walk, mut room, mut listing) = (Walk::new(path, depth)?, Room::new(most), Listing::default());
    while let Some(place) = walk.next() {
        let mut stat = paths::described(&place.stat);
        if stat.kind == FileKind::Link {
            // A link that is gone meanwhile has no target.
            let target = walk.dir().and_then(|dir| readlinkat(dir, &place.name, Vec::new()).ok());
            stat.target = target.map(|target| target.into_bytes().into());
        }
        if !room.take(place.path.len() + stat.target.as_ref().map_or(0, |target| target.0.len())) {
            listing.cut = true;
            break;
        }
        listing.entries.push(Entry { stat, path: place.path.into() });
    }
    listing.skipped = walk.skipped;
    Ok(listing)
}

pub(super) fn glob(path: &ByteString, pattern: &str, most: u32) -> Result<Found, Failure> {
    if pattern.starts_with('/') {
        return Err(because(pattern, libc::EINVAL, "a pattern is relative to the directory where the search begins"));
    }
    let glob = Glob::new(pattern)?;
    let depth = glob.depth.unwrap_or(DEEPEST);
    let (mut walk, mut room, mut found) = (Walk::new(path, depth)?, Room::new(most), Found::default());
    while let Some(place) = walk.next() {
        if !glob.matches(&place.path) {
            continue;
        }
        if !room.take(place.path.len()) {
            found.cut = true;
            break;
        }
        found.paths.push(place.path.into());
    }
    found.skipped = walk.skipped;
    Ok(found)
}
