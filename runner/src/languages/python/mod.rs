//! Python: its zygotes, and the modules that the zygotes load before any job.

pub(crate) mod scan;
pub(crate) mod zygote;
mod zygotes;

pub(crate) use zygote::{Child, Hatched};
pub(crate) use zygotes::{FLAVORS, Flavor, Heard, Zygotes};

/// Names and sources of the harness and its parts. A zygote loads them in this order, so each may import those before
/// it. It makes a `Harness` of the last one.
const HARNESS: [(&str, &str); 8] = [
    ("zygote_pages", include_str!("zygote_pages.py")),
    ("harness_channel", include_str!("harness_channel.py")),
    ("harness_told", include_str!("harness_told.py")),
    ("harness_code", include_str!("harness_code.py")),
    ("harness_show", include_str!("harness_show.py")),
    ("harness_streams", include_str!("harness_streams.py")),
    ("harness_tools", include_str!("harness_tools.py")),
    ("harness", include_str!("harness.py")),
];
