//! The Python that the runner embeds: the harness and its parts, loaded by the zygote under these names, in this order.

/// Names and sources of the modules. Each may import those before it. The zygote makes a `Harness` of the last one.
pub const HARNESS: [(&str, &str); 8] = [
    ("zygote_pages", include_str!("zygote_pages.py")),
    ("harness_channel", include_str!("harness_channel.py")),
    ("harness_told", include_str!("harness_told.py")),
    ("harness_code", include_str!("harness_code.py")),
    ("harness_show", include_str!("harness_show.py")),
    ("harness_streams", include_str!("harness_streams.py")),
    ("harness_tools", include_str!("harness_tools.py")),
    ("harness", include_str!("harness.py")),
];
