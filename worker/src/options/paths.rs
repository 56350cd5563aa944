//! Which paths the sandboxes of a pool can have: datasets, and directories of Python's modules.

use super::PoolOptions;

/// Checks the paths of a pool.
///
/// # Errors
/// The first key whose value can't be used, and why.
pub(super) fn validate(pool: &PoolOptions) -> Result<(), (String, String)> {
    let check =
        |ok: bool, key: &str, problem: &str| if ok { Ok(()) } else { Err((key.to_owned(), problem.to_owned())) };
    for (dataset, path) in &pool.datasets {
        let key = format!("datasets.{dataset}");
        let plain = dataset.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        check(
            plain && !dataset.starts_with('.') && (1..=64).contains(&dataset.len()),
            &key,
            "the name must have 1 to 64 letters, digits, '-', '_' or '.', and must not begin with '.'",
        )?;
        check(path.is_absolute() && path.to_str().is_some(), &key, "must be an absolute path, in UTF-8")?;
    }
    // The variable that passes the directories on separates them by colons.
    let passable =
        pool.python_path.iter().all(|dir| dir.is_absolute() && dir.to_str().is_some_and(|d| !d.contains(':')));
    check(passable, "python_path", "must be absolute paths, in UTF-8 and without ':'")
}

#[cfg(test)]
mod tests {
    use super::super::{Options, PoolOptions};

    /// The key of the first option that can't be used, if a pool is changed like this.
    fn refused(change: impl Fn(&mut PoolOptions)) -> Option<String> {
        let mut options = Options::default();
        options.pools.values_mut().for_each(change);
        options.validate().err().map(|invalid| invalid.key)
    }

    #[test]
    fn a_dataset_has_a_plain_name_and_an_absolute_path() {
        let problem = |name: &str, path: &str| refused(|pool| drop(pool.datasets.insert(name.into(), path.into())));
        assert_eq!(problem("sales-2024.csv", "/srv/sales"), None);
        for (name, path) in [("..", "/srv"), ("a/b", "/srv"), ("", "/srv"), (".x", "/srv"), ("a", "srv")] {
            assert_eq!(problem(name, path), Some(format!("pools.default.datasets.{name}")));
        }
    }

    #[test]
    fn the_python_path_has_absolute_paths() {
        let problem = |path: &str| refused(|pool| pool.python_path = vec![path.into()]);
        assert_eq!(problem("/data/packages"), None);
        for path in ["packages", "", "/data/a:/data/b"] {
            assert_eq!(problem(path), Some("pools.default.python_path".to_owned()), "{path}");
        }
    }
}
