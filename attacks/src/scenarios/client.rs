//! Attacks on the command line: files that it reads and writes, and text that it shows.

mod batch_folders;
mod executed_names;
mod home;
mod links;
mod loose_umask;
mod planted_tools;
mod prompts;
mod store_keys;
mod temporary_directory;
mod terminal;
mod tools_file;
mod traps;

super::on_client!("client":
    batch_folders, executed_names, home, links, loose_umask, planted_tools, prompts, store_keys, temporary_directory, terminal, tools_file, traps,
);
