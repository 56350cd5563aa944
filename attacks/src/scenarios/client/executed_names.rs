//! Artifacts whose names other programs execute without being asked.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "leaves as artifacts, in the user's folder, more than a hundred files that make, git, shells, editors, package managers, test runners, agents and interpreters execute unasked"
wins = "commands that run on the user's machine later"
guard = "such names are left out, and so are all names that begin with a dot; in a folder that programs run from, code is left out, too"
control = {}
held = { here = ["data.csv"], apart = ["data.csv"] }
open = { apart = ["data.csv", "tool.py"] }
"#;

/// Names that some program executes in any folder.
const ANYWHERE: &str = "
.envrc .git/hooks/post-checkout .git/config .GIT/hooks/pre-commit .vscode/tasks.json .idea/workspace.xml .bashrc .profile .ssh/rc
.config/autostart/x.desktop .npmrc .yarnrc.yml .pre-commit-config.yaml .gdbinit .lldbinit .exrc .vimrc .nvimrc .lua .dir-locals.el
.mcp.json .claude/settings.json .cursor/mcp.json .devcontainer/devcontainer.json .github/workflows/x.yml .gitattributes .husky/pre-push
.cargo/config.toml .rustfmt.toml .python-version .pdbrc .Rprofile .irbrc .mise.toml .tool-versions .terraformrc
Makefile makefile GNUmakefile common.mk justfile .justfile Justfile Taskfile.yml Taskfile.yaml package.json pyproject.toml setup.py setup.cfg
conftest.py tox.ini noxfile.py pytest.ini sitecustomize.py usercustomize.py pyvenv.cfg evil.pth x/__pycache__/json.cpython-311.pyc
node_modules/x/index.js build.rs Cargo.toml rust-toolchain.toml rust-toolchain mise.toml CMakeLists.txt CMakePresets.json meson.build
Dockerfile compose.yaml compose.override.yaml docker-compose.override.yml Vagrantfile Rakefile Gemfile x.gemspec jest.config.js vite.config.ts
webpack.config.mjs vitest.config.mts eslint.config.cjs gulpfile.js gulpfile.mjs Gruntfile.js Gruntfile.coffee flake.nix shell.nix main.tf
settings.gradle build.gradle build.gradle.kts settings.gradle.kts pom.xml mvnw gradlew go.work Pipfile tasks.py wscript SConscript SConstruct
Jenkinsfile Procfile desktop.ini x.code-workspace x.desktop x.lnk mkdocs.yml lefthook.yaml devenv.nix devbox.json Caddyfile dune
Directory.Build.props Directory.Build.targets nuget.config x.csproj x.fsproj x.sln deno.jsonc bunfig.toml turbo.json nx.json
CLAUDE.md AGENTS.md GEMINI.md
";

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let names: Vec<&str> = ANYWHERE.split_whitespace().collect();
    let code = format!(
        "import os\nfor name in {names:?} + ['data.csv', 'tool.py'][:{}]:\n    name = 'artifacts/' + name\n    os.makedirs(os.path.dirname(name), exist_ok=True)\n    open(name, 'w').write('x')\n",
        if lifted { 2 } else { 1 }
    );
    let mut evidence = Evidence::default();
    let thermae = Thermae::new()?;
    thermae.file("main.py", &code)?;
    thermae.call(&["run", "main.py", "--artifacts", "."])?;
    let mut here = thermae.listed("");
    here.retain(|name| name != "main.py" && !name.starts_with(".state"));
    evidence.note("here", here);
    thermae.call(&["run", "main.py", "--artifacts", "apart"])?;
    evidence.note("apart", thermae.listed("apart"));
    Ok(evidence)
}
