//! Names under which a file is executed, or tells a program what to execute, without anybody asking for it.
//!
//! What a job leaves is the work of code that nobody has read. Written to a folder of the user's, a file of the right name would run at
//! the next `make`, `git`, `pytest`, `npm`, at a change of directory, at the next run of `thermae` itself, or be obeyed by an agent that
//! looks for instructions there. There is no whole list
//! of such names. So: every name with a dot in front, the well-known others, and in a folder that programs are run from all that an
//! interpreter would load from there.

/// Well-known names, in small letters.
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

/// Folders that interpreters load code from.
const FOLDERS: &[&str] = &["__pycache__", "node_modules", "site-packages"];

/// Ends of names that mean the same wherever they are.
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

/// Ends of names of what an interpreter or a shell finds in the folder that it runs in, or that its program lies in.
const CODE: &[&str] = &[
    ".bash", ".bat", ".cjs", ".cmd", ".com", ".dll", ".dylib", ".exe", ".fish", ".js", ".jsx", ".ksh", ".lua", ".mjs",
    ".node", ".php", ".pl", ".pm", ".ps1", ".psm1", ".py", ".pyc", ".pyd", ".pyo", ".pyw", ".pyz", ".rb", ".sh", ".so",
    ".ts", ".tsx", ".wasm", ".zsh",
];

/// Why an artifact is left out, if its path has such a name. `runs`: it would lie in, or below, a folder that programs are run from.
pub(super) fn executed(path: &[u8], runs: bool) -> Option<&'static str> {
    let parts: Vec<String> =
        path.split(|b| *b == b'/').map(|part| String::from_utf8_lossy(part).to_lowercase()).collect();
    let (name, folders) = parts.split_last()?;
    // Some file systems drop what is behind these.
    let name = name.trim_end_matches(['.', ' ']);
    let code = CODE.iter().any(|end| name.ends_with(end)) || name.contains(".so.");
    if parts.iter().any(|part| part.starts_with('.')) {
        Some(
            "names with a dot in front are left out: shells, editors and other programs read or execute them by themselves",
        )
    } else if NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end)) {
        Some("programs execute a file of this name, or what it says, by themselves")
    } else if folders.iter().any(|folder| FOLDERS.contains(&folder.as_str())) {
        Some("interpreters load what is in a folder of this name by themselves")
    } else if runs && code {
        Some(
            "programs are run from this folder, and it could be one, or a part of one; give --artifacts a folder of its own",
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
