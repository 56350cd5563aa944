//! Finds the paths of this machine that an interpreter needs to run: its own folder, and the symbolic links on the way
//! to it. Nothing else of a user's home directory may ever be shown.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directories that the view (`outer/view.rs`) always shows, so that they are never listed.
const SYSTEM: [&str; 6] = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"];

/// Folders that hold many other things. An interpreter's folder may lie below one of them, but none is shown as a
/// whole.
const SHARED: [&str; 9] = ["/", "/opt", "/srv", "/var", "/etc", "/mnt", "/media", "/run", "/home"];

/// What must be shown beyond the system's directories. No path leads through a symbolic link.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Folders and files, with everything in them.
    pub(super) show: Vec<PathBuf>,
    /// Symbolic links, without what they lead to.
    pub(super) links: Vec<PathBuf>,
    /// Folders within those of `show` that are covered by an empty one: the packages of a virtual environment's base
    /// interpreter, unless the environment uses them. They can be fifty thousand files, and jobs have no use for them.
    pub(super) hide: Vec<PathBuf>,
}

/// Home directories of the machine's users.
pub(super) struct Homes(Vec<PathBuf>);

impl Homes {
    /// The home of this process's user (`HOME`), and those of root and of all users from 1000 in `/etc/passwd`.
    pub(super) fn of_this_machine() -> Self {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let known = passwd.lines().filter_map(|line| {
            let mut fields = line.split(':').skip(2);
            let user: u32 = fields.next()?.parse().ok()?;
            (user == 0 || user >= 1000).then(|| PathBuf::from(fields.nth(2).unwrap_or_default()))
        });
        Self(
            env::var_os("HOME")
                .map(PathBuf::from)
                .into_iter()
                .chain(known)
                .filter_map(|h| fs::canonicalize(h).ok())
                .collect(),
        )
    }

    /// Whether `folder` holds more than an interpreter: one of [`SHARED`], a home, a folder with homes in it, or a
    /// `.local`.
    fn include(&self, folder: &Path) -> bool {
        SHARED.iter().any(|shared| folder == Path::new(shared))
            || self.0.iter().any(|home| home.starts_with(folder) || folder == home.join(".local"))
    }
}

impl Layout {
    /// What the interpreter `python` needs.
    pub(super) fn of(python: &Path, homes: &Homes) -> io::Result<Self> {
        let mut layout = Self::default();
        let real = layout.trace(python)?;
        let mut apart = None;
        // An interpreter finds its virtual environment by the path by which it was called, not by where that link
        // leads.
        if let Some(venv) = prefix(python)
            && let Ok(text) = fs::read_to_string(venv.join("pyvenv.cfg"))
        {
            layout.add_prefix(&venv, homes)?;
            if !uses_its_bases_packages(&text) {
                apart = Some(layout.trace(&venv)?);
            }
            let home = text.lines().find_map(|l| l.strip_prefix("home")?.trim_start().strip_prefix('='));
            if let Some(base) = home.and_then(|home| Path::new(home.trim()).parent().map(Path::to_path_buf))
                && base.exists()
            {
                layout.add_prefix(&base, homes)?;
            }
        }
        // If a link on the way lies beside a standard library, the interpreter may look for the library there.
        for link in layout.links.clone() {
            if let Some(beside) = prefix(&link)
                && standard_libraries(&beside).iter().any(|library| library.join("os.py").is_file())
            {
                layout.add_prefix(&beside, homes)?;
            }
        }
        match prefix(&real) {
            Some(own) if !homes.include(&own) => layout.add(own),
            own => {
                layout.add(real);
                own.iter().for_each(|own| layout.add_parts(own));
            }
        }
        if let Some(venv) = apart {
            layout.hide_packages_beside(&venv);
        }
        let Self { show, links, .. } = &mut layout;
        links.retain(|link| !system(link) && !show.iter().any(|shown| link.starts_with(shown)));
        Ok(layout)
    }

    /// Hides the packages of everything that is shown, except those of the virtual environment `venv`.
    fn hide_packages_beside(&mut self, venv: &Path) {
        let others = self.show.iter().filter(|shown| !shown.starts_with(venv));
        let libraries = others.flat_map(|shown| standard_libraries(shown).into_iter().chain([shown.clone()]));
        for packages in libraries.map(|library| library.join("site-packages")).filter(|packages| packages.is_dir()) {
            if let Ok(real) = fs::canonicalize(packages)
                && self.show.iter().any(|shown| real.starts_with(shown))
                && !self.show.iter().any(|shown| shown.starts_with(&real))
                && !venv.starts_with(&real)
                && !self.hide.contains(&real)
            {
                self.hide.push(real);
            }
        }
    }

    /// Follows a path name by name and adds each symbolic link on the way to `links`. Returns where the path leads.
    fn trace(&mut self, path: &Path) -> io::Result<PathBuf> {
        let names = |path: &Path| path.components().rev().map(|c| c.as_os_str().to_os_string()).collect::<Vec<_>>();
        let (mut left, mut at, mut hops) = (names(path), PathBuf::from("/"), 0);
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            // A link to an absolute path starts over: joining its `/` replaces the path so far.
            let here = at.join(&name);
            match fs::read_link(&here) {
                Err(_) => at = here,
                Ok(target) => {
                    hops += 1;
                    if hops > 40 {
                        return Err(io::Error::other("too many symbolic links"));
                    }
                    left.extend(names(&target));
                    if !self.links.contains(&here) {
                        self.links.push(here);
                    }
                }
            }
        }
        Ok(at)
    }

    /// Shows an interpreter's folder. If the folder holds more than that, only the interpreter's parts of it are shown.
    fn add_prefix(&mut self, folder: &Path, homes: &Homes) -> io::Result<()> {
        let real = self.trace(folder)?;
        if homes.include(&real) {
            self.add_parts(&real)
        } else {
            self.add(real)
        }
        Ok(())
    }

    /// Shows the parts of a shared folder that belong to an interpreter: its settings, standard libraries and
    /// `libpython`.
    fn add_parts(&mut self, folder: &Path) {
        let settings = folder.join("pyvenv.cfg");
        if settings.is_file() {
            self.add(settings);
        }
        for part in standard_libraries(folder).into_iter().chain(named(&folder.join("lib"), "libpython3")) {
            if let Ok(real) = self.trace(&part) {
                self.add(real);
            }
        }
    }

    /// Whether programs see this path.
    pub(super) fn shows(&self, path: &Path) -> bool {
        system(path) || self.links.iter().any(|link| link == path) || self.show.iter().any(|s| path.starts_with(s))
    }

    fn add(&mut self, path: PathBuf) {
        if !system(&path) && !self.show.iter().any(|shown| path.starts_with(shown)) {
            self.show.retain(|shown| !shown.starts_with(&path));
            self.show.push(path);
        }
    }
}

fn system(path: &Path) -> bool {
    SYSTEM.iter().any(|s| path.starts_with(s))
}

/// Whether a virtual environment with these settings also uses the packages of its base, as one that was made with
/// `venv --system-site-packages` does.
fn uses_its_bases_packages(settings: &str) -> bool {
    settings
        .lines()
        .filter_map(|line| line.split_once('='))
        .any(|(key, value)| key.trim() == "include-system-site-packages" && value.trim().eq_ignore_ascii_case("true"))
}

/// The folder that an interpreter belongs to: the parent of the folder it lies in.
fn prefix(binary: &Path) -> Option<PathBuf> {
    binary.parent().and_then(Path::parent).map(Path::to_path_buf)
}

/// The folders `lib/python3.*` and `lib64/python3.*` of an interpreter's folder.
fn standard_libraries(prefix: &Path) -> Vec<PathBuf> {
    ["lib", "lib64"].iter().flat_map(|lib| named(&prefix.join(lib), "python3")).filter(|path| path.is_dir()).collect()
}

fn named(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        entries.filter(|e| e.file_name().to_string_lossy().starts_with(begin)).map(|e| e.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A directory with a home that holds secrets, into which tests put interpreters.
    struct Machine {
        dir: tempfile::TempDir,
        home: PathBuf,
    }

    impl Machine {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let home = fs::canonicalize(dir.path()).unwrap().join("home/anna");
            fs::create_dir_all(home.join(".ssh")).unwrap();
            fs::create_dir_all(home.join(".local/share/keyrings")).unwrap();
            Self { dir, home }
        }

        fn real(&self, path: &str) -> PathBuf {
            fs::canonicalize(self.dir.path()).unwrap().join(path)
        }

        /// Makes an interpreter with its standard library and returns its path.
        fn installed(&self, prefix: &str) -> PathBuf {
            let prefix = self.real(prefix);
            fs::create_dir_all(prefix.join("lib/python3.12")).unwrap();
            fs::create_dir_all(prefix.join("bin")).unwrap();
            fs::write(prefix.join("bin/python3.12"), "").unwrap();
            symlink("python3.12", prefix.join("bin/python3")).unwrap();
            prefix.join("bin/python3")
        }

        fn linked(&self, at: &str, to: &Path) -> PathBuf {
            let at = self.real(at);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(to, &at).unwrap();
            at
        }

        fn venv(&self, at: &str, python: &Path) -> PathBuf {
            let own = self.linked(&format!("{at}/bin/python3"), python);
            let home = python.parent().unwrap().display();
            fs::write(self.real(at).join("pyvenv.cfg"), format!("home = {home}\nversion = 3.12\n")).unwrap();
            own
        }

        fn layout(&self, python: &Path) -> Layout {
            let layout = Layout::of(python, &Homes(vec![self.home.clone()])).unwrap();
            for shown in &layout.show {
                assert!(!self.home.starts_with(shown), "the home is shown: {layout:?}");
                assert!(!self.home.join(".ssh").starts_with(shown), "keys are shown: {layout:?}");
                assert!(!self.home.join(".local/share/keyrings").starts_with(shown), "keyrings are shown: {layout:?}");
            }
            layout
        }
    }

    #[test]
    fn the_systems_own_interpreter_needs_nothing_more() {
        assert_eq!(Layout::of(Path::new("/usr/bin/env"), &Homes::of_this_machine()).unwrap(), Layout::default());
    }

    #[test]
    fn of_a_link_in_a_home_only_the_link_is_shown() {
        let machine = Machine::new();
        let python = machine.installed("opt/py");
        for at in ["home/anna/bin/python3", "home/anna/.local/bin/python3", "home/anna/python"] {
            let link = machine.linked(at, &python);
            assert_eq!(
                machine.layout(&link),
                Layout { show: vec![machine.real("opt/py")], links: vec![link], hide: vec![] }
            );
        }
    }

    #[test]
    fn a_chain_of_links_is_shown_link_by_link() {
        let machine = Machine::new();
        let python = machine.installed("opt/py");
        let first = machine.linked("home/anna/.local/bin/python3.12", &python);
        let second = machine.linked("home/anna/tools/python3", &first);
        let links = vec![second.clone(), first];
        assert_eq!(machine.layout(&second), Layout { show: vec![machine.real("opt/py")], links, hide: vec![] });
    }

    #[test]
    fn uvs_interpreters_are_shown_with_the_link_that_names_their_minor_version() {
        let machine = Machine::new();
        let store = "home/anna/.local/share/uv/python";
        machine.installed(&format!("{store}/cpython-3.12.4-linux"));
        let minor = machine.linked(&format!("{store}/cpython-3.12-linux"), Path::new("cpython-3.12.4-linux"));
        let venv = machine.venv("home/anna/project/.venv", &minor.join("bin/python3.12"));
        let show =
            vec![machine.real("home/anna/project/.venv"), machine.real(&format!("{store}/cpython-3.12.4-linux"))];
        assert_eq!(machine.layout(&venv), Layout { show, links: vec![minor], hide: vec![] });
    }

    #[test]
    fn a_virtualenv_of_a_virtualenv_reaches_its_home() {
        let machine = Machine::new();
        let python = machine.installed("home/anna/.pyenv/versions/3.12.4");
        let first = machine.venv("home/anna/one", &python);
        let second = machine.venv("home/anna/two", &first);
        let show = ["home/anna/two", "home/anna/one", "home/anna/.pyenv/versions/3.12.4"].map(|p| machine.real(p));
        assert_eq!(machine.layout(&second), Layout { show: show.into(), links: vec![], hide: vec![] });
    }

    #[test]
    fn of_an_interpreter_installed_into_a_home_only_its_own_parts_are_shown() {
        let machine = Machine::new();
        for prefix in ["home/anna", "home/anna/.local"] {
            let python = machine.installed(prefix);
            let layout = machine.layout(&python);
            let own = machine.real(prefix);
            assert_eq!(layout.show, [own.join("bin/python3.12"), own.join("lib/python3.12")]);
            assert_eq!(layout.links, [own.join("bin/python3")]);
        }
    }

    #[test]
    fn a_virtualenv_that_is_a_home_shows_its_packages_and_nothing_else() {
        let machine = Machine::new();
        let python = machine.installed("opt/py");
        fs::create_dir_all(machine.home.join("lib/python3.12/site-packages")).unwrap();
        let venv = machine.venv("home/anna", &python);
        let layout = machine.layout(&venv);
        let show = [machine.home.join("pyvenv.cfg"), machine.home.join("lib/python3.12"), machine.real("opt/py")];
        assert_eq!(layout, Layout { show: show.into(), links: vec![venv], hide: vec![] });
    }

    #[test]
    fn a_home_behind_a_link_is_still_a_home() {
        let machine = Machine::new();
        let python = machine.installed("opt/py");
        machine.linked("home/anna/bin/python3", &python);
        let elsewhere = machine.linked("users", &machine.real("home"));
        let layout = machine.layout(&elsewhere.join("anna/bin/python3"));
        let links = vec![elsewhere, machine.real("home/anna/bin/python3")];
        assert_eq!(layout, Layout { show: vec![machine.real("opt/py")], links, hide: vec![] });
    }

    #[test]
    fn a_virtualenv_hides_the_packages_of_its_base_unless_it_uses_them() {
        let machine = Machine::new();
        let python = machine.installed("opt/py");
        let packages = machine.real("opt/py/lib/python3.12/site-packages");
        fs::create_dir_all(&packages).unwrap();
        let venv = machine.venv("srv/app/.venv", &python);
        fs::create_dir_all(machine.real("srv/app/.venv/lib/python3.12/site-packages")).unwrap();
        assert_eq!(machine.layout(&python).hide, Vec::<PathBuf>::new(), "they are the interpreter's own");
        assert_eq!(machine.layout(&venv).hide, std::slice::from_ref(&packages));
        let settings = machine.real("srv/app/.venv/pyvenv.cfg");
        for (choice, hidden) in [("false", vec![packages]), ("true", vec![]), ("True", vec![])] {
            let home = python.parent().unwrap().display();
            fs::write(&settings, format!("home = {home}\ninclude-system-site-packages = {choice}\n")).unwrap();
            assert_eq!(machine.layout(&venv).hide, hidden, "{choice}");
        }
    }
}
