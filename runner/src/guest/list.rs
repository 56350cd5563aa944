//! Lists directories, and finds paths by patterns.

use super::glob::Glob;
use super::paths;
use super::walk::{DEEPEST, Room, Walk};
use crate::frames::{ByteString, Entry, Failure, Found, Listing};

pub(super) fn list(path: &ByteString, depth: u32, most: u32) -> Result<Listing, Failure> {
    let (mut walk, mut room, mut listing) = (Walk::new(path, depth)?, Room::new(most), Listing::default());
    while let Some(place) = walk.next() {
        if !room.take(place.path.len()) {
            listing.cut = true;
            break;
        }
        listing.entries.push(Entry { stat: paths::described(&place.stat), path: place.path.into() });
    }
    listing.skipped = walk.skipped;
    Ok(listing)
}

pub(super) fn glob(path: &ByteString, pattern: &str, most: u32) -> Result<Found, Failure> {
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
