//! Names of files that programs execute, or take commands from, without being asked.
//!
//! An artifact is the work of code that nobody has read. In a folder of the user's, a file with such a name would run
//! at the next `make`, `git`, `pytest` or `npm`, at a change of directory or at the next run of `thermae` itself, or an
//! agent would follow it as instructions. A list of such names can't be complete. So these names are left out: all that
//! begin with a dot, the well-known ones, and, in folders that programs are run from, everything that an interpreter
//! would load.

/// Well-known names, in lower case.
const NAMES: &[&str] = &[
    "thermae.toml",
    "agents.md",
    "autorun.inf",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "brewfile",
    "bsdmakefile",
    "build",
    "build.bazel",
    "build.gradle",
    "build.gradle.kts",
    "build.ninja",
    "build.rs",
    "build.xml",
    "bunfig.toml",
    "caddyfile",
    "cargo.toml",
    "claude.md",
    "cmakelists.txt",
    "cmakepresets.json",
    "cmakeuserpresets.json",
    "compose.override.yaml",
    "compose.override.yml",
    "compose.yaml",
    "compose.yml",
    "composer.json",
    "configure",
    "conftest.py",
    "containerfile",
    "default.nix",
    "deno.json",
    "deno.jsonc",
    "desktop.ini",
    "devbox.json",
    "devenv.nix",
    "directory.build.props",
    "directory.build.rsp",
    "directory.build.targets",
    "docker-bake.hcl",
    "docker-compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "dockerfile",
    "dodo.py",
    "dune",
    "dune-project",
    "earthfile",
    "fabfile.py",
    "flake.nix",
    "gemfile",
    "gemini.md",
    "gnumakefile",
    "go.work",
    "gradle.properties",
    "gradlew",
    "gradlew.bat",
    "gruntfile.coffee",
    "gruntfile.js",
    "gruntfile.ts",
    "gulpfile.cjs",
    "gulpfile.js",
    "gulpfile.mjs",
    "gulpfile.ts",
    "hatch.toml",
    "hatch_build.py",
    "jenkinsfile",
    "justfile",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    "lerna.json",
    "magefile.go",
    "makefile",
    "makefile.pl",
    "makefile.win",
    "meson.build",
    "mise.toml",
    "mkdocs.yml",
    "module.bazel",
    "mvnw",
    "mvnw.cmd",
    "noxfile.py",
    "nuget.config",
    "nx.json",
    "package.json",
    "pipfile",
    "pnpmfile.cjs",
    "podfile",
    "pom.xml",
    "procfile",
    "procfile.dev",
    "pyproject.toml",
    "pytest.ini",
    "pyvenv.cfg",
    "rakefile",
    "rakefile.rb",
    "rust-toolchain",
    "rust-toolchain.toml",
    "sconscript",
    "sconstruct",
    "settings.gradle",
    "settings.gradle.kts",
    "setup.cfg",
    "setup.py",
    "shell.nix",
    "sitecustomize.py",
    "skaffold.yaml",
    "snakefile",
    "taskfile.dist.yaml",
    "taskfile.dist.yml",
    "taskfile.yaml",
    "taskfile.yml",
    "tasks.py",
    "tiltfile",
    "tox.ini",
    "toxfile.py",
    "turbo.json",
    "usercustomize.py",
    "uv.toml",
    "vagrantfile",
    "workspace",
    "workspace.bazel",
    "wscript",
];

/// Names of folders that interpreters load code from.
const FOLDERS: &[&str] = &["__pycache__", "node_modules", "site-packages"];

/// Suffixes of names that programs execute or obey in any folder.
const ENDS: &[&str] = &[
    ".code-workspace",
    ".config.cjs",
    ".config.cts",
    ".config.js",
    ".config.mjs",
    ".config.mts",
    ".config.ts",
    ".csproj",
    ".desktop",
    ".fsproj",
    ".gemspec",
    ".lnk",
    ".mk",
    ".pth",
    ".sln",
    ".slnx",
    ".tf",
    ".tfvars",
    ".vbproj",
    ".vcxproj",
];

/// Suffixes of files that an interpreter or a shell finds in its working folder, or beside its program.
const CODE: &[&str] = &[
    ".bash", ".bat", ".cjs", ".cmd", ".com", ".dll", ".dylib", ".exe", ".fish", ".js", ".jsx", ".ksh", ".lua", ".mjs",
    ".node", ".php", ".pl", ".pm", ".ps1", ".psm1", ".py", ".pyc", ".pyd", ".pyo", ".pyw", ".pyz", ".rb", ".sh", ".so",
    ".ts", ".tsx", ".wasm", ".zsh",
];

/// Why an artifact with this path is left out; `None` if it isn't. `runs` says whether it would be in or below a folder
/// that programs are run from.
pub(super) fn executed(path: &[u8], runs: bool) -> Option<&'static str> {
    let parts: Vec<String> =
        path.split(|b| *b == b'/').map(|part| String::from_utf8_lossy(part).to_lowercase()).collect();
    let (name, folders) = parts.split_last()?;
    // Some file systems drop these characters at the end of a name.
    let name = name.trim_end_matches(['.', ' ']);
    let code = CODE.iter().any(|end| name.ends_with(end)) || name.contains(".so.");
    if parts.iter().any(|part| part.starts_with('.')) {
        Some("names that begin with a dot are left out: shells, editors and other programs read or execute such files")
    } else if NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end)) {
        Some("programs automatically execute a file with this name, or what it says")
    } else if folders.iter().any(|folder| FOLDERS.contains(&folder.as_str())) {
        Some("interpreters automatically load what is in a folder with this name")
    } else if runs && code {
        Some(
            "programs are run from this folder, and this could be one, or a part of one; give --artifacts another folder",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_by_itself_is_left_out_everywhere() {
        for name in [
            "thermae.toml",
            "Thermae.TOML",
            "a/thermae.toml",
            ".envrc",
            ".git/hooks/post-checkout",
            "a/.vscode/tasks.json",
            "Makefile",
            "GNUmakefile",
            "package.json",
            "conftest.py",
            "x/sitecustomize.py",
            "evil.pth",
            "__pycache__/json.cpython-311.pyc",
            "node_modules/a/index.js",
            "thermae.toml.",
            "thermae.toml ",
            ".bashrc",
            "jest.config.js",
            "vitest.config.mts",
            "compose.override.yaml",
            "infra/main.tf",
            "rust-toolchain",
            "AGENTS.md",
        ] {
            assert!(executed(name.as_bytes(), false).is_some(), "{name}");
        }
        for name in
            ["plot.png", "a/report.csv", "script.py", "data.json", "README", "a.b/c", "results", "model.toml", "é"]
        {
            assert_eq!(executed(name.as_bytes(), false), None, "{name}");
        }
    }

    #[test]
    fn code_is_left_out_where_programs_run() {
        for name in ["json.py", "pkg/__init__.py", "tool.sh", "lib.so", "lib.so.1", "index.mjs"] {
            assert!(executed(name.as_bytes(), true).is_some(), "{name}");
        }
        for name in ["plot.png", "report.csv", "notes.txt", "data.json", "README"] {
            assert_eq!(executed(name.as_bytes(), true), None, "{name}");
        }
    }
}
