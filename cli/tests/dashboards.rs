//! Checks that the dashboard, the alert rules and the table of metrics in `docs/operations.md` use only metrics that
//! the programs have. This needs no server. `fleet/dashboards.rs` shows end to end that each query returns data.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use serde_json::Value;
use thermae_backplane::{bus, registry};
use thermae_service::http::Health;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The metrics of a scheduler, a worker and a gateway, as their programs register them.
fn programs() -> Registry {
    let metrics = Registry::new();
    let (bus, records) = (Arc::new(bus::Local::new()), Arc::new(registry::Local::new()));
    let options = thermae_scheduler::Options::default();
    thermae_scheduler::Service::new(options, bus.clone(), records.clone(), &metrics, Health::new()).unwrap();
    let options = thermae_worker::Options::default();
    thermae_worker::Service::new(options, bus, records, &metrics, Health::new()).unwrap();
    thermae_gateway::Metrics::new(&metrics).unwrap();
    metrics
}

/// Removes a metric of any kind from a registry. Gives false if there was none. (A family without values can be found
/// in no other way.)
fn take(metrics: &Registry, name: &str) -> bool {
    IntCounter::new(name, "any").is_ok_and(|same_name| metrics.unregister(Box::new(same_name)).is_ok())
}

/// Whether the metric that was removed had these labels and this help text.
fn had(metrics: &Registry, name: &str, labels: &[&str], help: &str) -> bool {
    let fits = |collector: Box<dyn Collector>| metrics.register(collector).is_ok();
    if labels.is_empty() {
        IntCounter::new(name, help).is_ok_and(|same| fits(Box::new(same)))
    } else {
        IntCounterVec::new(Opts::new(name, help), labels).is_ok_and(|same| fits(Box::new(same)))
    }
}

/// Names of the series in a PromQL expression.
fn names(expr: &str) -> BTreeSet<String> {
    const WORDS: [&str; 8] = ["and", "or", "unless", "bool", "offset", "inf", "nan", "atan2"];
    const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
    let mut names = BTreeSet::new();
    let mut rest = expr;
    while let Some(c) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
        let skip = match c {
            '"' | '\'' | '`' => 2 + rest[1..].find(c).expect("a string ends"),
            '{' => closing(rest, '}'),
            '[' => closing(rest, ']'),
            c if c.is_ascii_digit() => word.max(1),
            _ if word > 0 => {
                let (name, after) = (&rest[..word], rest[word..].trim_start());
                if LISTS.contains(&name) {
                    let list = if after.starts_with('(') { closing(after, ')') } else { 0 };
                    word + (rest[word..].len() - after.len()) + list
                } else {
                    if !after.starts_with('(')
                        && !LISTS.contains(&after)
                        && !WORDS.contains(&name)
                        && !aggregates(after)
                    {
                        names.insert(name.to_owned());
                    }
                    word
                }
            }
            c => c.len_utf8(),
        };
        rest = &rest[skip..];
    }
    names
}

/// Whether the text after a name makes the name an aggregation, as in `sum by (x) (…)`.
fn aggregates(after: &str) -> bool {
    after.starts_with("by ")
        || after.starts_with("by(")
        || after.starts_with("without ")
        || after.starts_with("without(")
}

/// Length of the text up to and including the closing sign. Signs in strings don't count.
fn closing(text: &str, sign: char) -> usize {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == sign => return at + c.len_utf8(),
            None => {}
        }
    }
    panic!("no {sign} in {text:?}");
}

/// All queries of the dashboard, each with the title of its panel.
fn dashboard() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read("dashboards/fleet.json")).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push((panel["title"].as_str().unwrap().to_owned(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        if let Some(expr) = annotation["expr"].as_str() {
            queries.push(("annotations".to_owned(), expr.to_owned()));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some((metric, _)) =
            variable["definition"].as_str().and_then(|text| text.strip_prefix("label_values(")?.split_once(','))
        {
            queries.push(("variables".to_owned(), metric.to_owned()));
        }
    }
    queries
}

/// All rules, with name and expression. In the file, an `expr:` is on one line, or is a block of lines with more
/// indentation.
fn rules() -> Vec<(String, String)> {
    let text = read("dashboards/rules.yaml");
    let mut rules: Vec<(String, String)> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start().trim_start_matches("- ");
        if let Some(name) = trimmed.strip_prefix("record: ").or_else(|| trimmed.strip_prefix("alert: ")) {
            rules.push((name.to_owned(), String::new()));
        } else if let Some(expr) = trimmed.strip_prefix("expr: ") {
            let mut whole = expr.trim_start_matches('|').to_owned();
            let depth = |line: &str| line.len() - line.trim_start().len();
            while let Some(more) = lines.next_if(|next| depth(next) > depth(line)) {
                whole = format!("{whole} {}", more.trim());
            }
            rules.last_mut().expect("a rule begins with its name").1 = whole;
        }
    }
    rules
}

/// The metric that a series belongs to. A histogram has three series.
fn metric(series: &str) -> &str {
    let histogram = |name: &&str| name.ends_with("_seconds");
    ["_bucket", "_sum", "_count"].iter().find_map(|end| series.strip_suffix(end).filter(histogram)).unwrap_or(series)
}

/// Series that don't come from the programs: those that Prometheus makes itself, and those that the rules record.
fn made_by_prometheus() -> BTreeSet<String> {
    let recorded = rules().into_iter().map(|(name, _)| name).filter(|name| name.contains(':'));
    recorded.chain(["up".to_owned(), "ALERTS".to_owned()]).collect()
}

#[test]
fn every_query_asks_for_metrics_that_there_are() {
    let known = made_by_prometheus();
    let queries: Vec<(String, String)> = dashboard().into_iter().chain(rules()).collect();
    assert!(queries.len() > 60, "only {} queries were found", queries.len());
    let metrics = programs();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (place, expr) in &queries {
        let asked = names(expr);
        assert!(!asked.is_empty(), "{place}: {expr:?} asks for nothing");
        for name in asked.iter().filter(|name| !known.contains(*name)) {
            let name = metric(name).to_owned();
            assert!(
                seen.contains(&name) || take(&metrics, &name),
                "{place} asks for {name}, which there is not: {expr}"
            );
            seen.insert(name);
        }
    }
    assert!(!take(&metrics, "thermae_no_such_metric"));
}

#[test]
fn every_metric_is_on_the_dashboard_and_in_the_documentation() {
    let metrics = programs();
    let shown: BTreeSet<String> =
        dashboard().iter().flat_map(|(_, expr)| names(expr)).map(|n| metric(&n).to_owned()).collect();
    let text = read("docs/operations.md");
    let rows = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `thermae_")?.split_once("` | ")?;
        let (labels, help) = rest.strip_suffix(" |")?.split_once("| ")?;
        Some((format!("thermae_{name}"), labels.trim(), help))
    });
    let rows: Vec<_> = rows.collect();
    for (name, labels, help) in &rows {
        assert!(shown.contains(name), "no panel shows {name}");
        assert!(take(&metrics, name), "docs/operations.md has {name}, which there is not (or twice)");
        let labels: Vec<&str> = labels.split(", ").map(|l| l.trim_matches('`')).filter(|l| !l.is_empty()).collect();
        assert!(
            had(&metrics, name, &labels, help),
            "{name} has other labels than {labels:?}, or another text than {help:?}"
        );
        assert!(take(&metrics, name));
    }
    // Only the registry's debug output tells how many metrics are left.
    let left = format!("{metrics:?}");
    assert!(left.contains("(0 collectors)"), "metrics that docs/operations.md lacks: {left}");
}

#[test]
fn every_alert_and_every_panel_is_explained() {
    let operations = read("docs/operations.md");
    for (alert, _) in rules().iter().filter(|(name, _)| !name.contains(':')) {
        assert!(
            operations.contains(&format!("| `{alert}` |")),
            "docs/operations.md does not say what to do about {alert}"
        );
    }
    let readme = read("dashboards/README.md");
    let dashboard: Value = serde_json::from_str(&read("dashboards/fleet.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
        let row = format!("| {} | {} |", panel["title"].as_str().unwrap(), panel["description"].as_str().unwrap());
        assert!(readme.contains(&row), "dashboards/README.md lacks the row {row}");
    }
}

#[test]
fn names_are_told_from_everything_else() {
    let of = |expr: &str| names(expr).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(
        of("histogram_quantile(0.99, sum by (le, pool) (rate(a_bucket{pool=~\"$pool\"}[$__rate_interval])))"),
        "a_bucket"
    );
    assert_eq!(of("sum (a and on (instance) b == 1) / (sum without (x) (c{y=\"}\"}) > 0.5e3)"), "a b c");
    assert_eq!(of("absent(pool:x:rate5m) or vector(0) + count by (le) (d offset 5m)"), "d pool:x:rate5m");
    assert_eq!(metric("x_seconds_bucket"), "x_seconds");
    assert_eq!(metric("x_count"), "x_count");
}

/// Prometheus accepts the rules, and each alert fires when it should. This needs Prometheus's own tool, which `cargo
/// xtask test` installs with the server.
#[test]
fn prometheus_accepts_and_tests_the_rules() {
    let Ok(server) = std::env::var("THERMAE_TEST_PROMETHEUS") else {
        return eprintln!("skipped: THERMAE_TEST_PROMETHEUS is not set");
    };
    let tool = Path::new(&server).with_file_name("promtool");
    for args in [["check", "rules", "rules.yaml"], ["test", "rules", "rules.test.yaml"]] {
        let output =
            std::process::Command::new(&tool).args(args).current_dir(root().join("dashboards")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "promtool {}: {said}", args.join(" "));
    }
}
