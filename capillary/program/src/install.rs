//! What an installation has beside the program: man pages, and completions for shells, made from the commands and flags
//! that clap knows.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::failure::Failure;

/// Where the pages lie beneath the prefix.
const MAN_FOLDER: &str = "share/man/man1";

/// Write man pages, and completions for bash, zsh and fish, beneath a folder
///
/// Man pages go to share/man/man1 there, completions to share/bash-completion/completions, share/zsh/site-functions and
/// share/fish/vendor_completions.d. Beneath ~/.local, where man, bash and fish look by themselves, they are this
/// user's; beneath /usr/local they are everybody's.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The folder; what is missing of it is made
    #[arg(value_name = "PREFIX")]
    prefix: PathBuf,
}

impl Options {
    /// Writes the program's pages and completions, and prints how many there are.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn run(&self, program: Command) -> Result<(), Failure> {
        let written = write(program, &self.prefix)?;
        crate::line!("{written} files beneath {}", self.prefix.display())
    }
}

/// Writes all files, and gives how many they are.
fn write(program: Command, prefix: &Path) -> Result<usize, Failure> {
    let name = program.get_name().to_owned();
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let pages = write_pages(&program, &create(prefix, MAN_FOLDER)?)?;
    let shells = [
        (Shell::Bash, "share/bash-completion/completions", name.clone()),
        (Shell::Zsh, "share/zsh/site-functions", format!("_{name}")),
        (Shell::Fish, "share/fish/vendor_completions.d", format!("{name}.fish")),
    ];
    for (shell, folder, file) in &shells {
        let mut text = Vec::new();
        clap_complete::generate(*shell, &mut program, &name, &mut text);
        let path = create(prefix, folder)?.join(file);
        std::fs::write(&path, text).map_err(|error| Failure::file(&path, &error))?;
    }
    Ok(pages + shells.len())
}

fn create(prefix: &Path, folder: &str) -> Result<PathBuf, Failure> {
    let path = prefix.join(folder);
    std::fs::create_dir_all(&path).map_err(|error| Failure::file(&path, &error))?;
    Ok(path)
}

/// Writes a page for the command and for each of its subcommands, and gives how many they are.
fn write_pages(command: &Command, folder: &Path) -> Result<usize, Failure> {
    let path = folder.join(Man::new(command.clone()).get_filename());
    write_page(command, &path).map_err(|error| Failure::file(&path, &error))?;
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let under: Vec<usize> = shown.map(|sub| write_pages(sub, folder)).collect::<Result<_, _>>()?;
    Ok(1 + under.iter().sum::<usize>())
}

fn write_page(command: &Command, path: &Path) -> io::Result<()> {
    let page = Man::new(command.clone()).source(format!("sfio {}", crate::VERSION));
    let mut file = BufWriter::new(File::create(path)?);
    page.render_title(&mut file)?;
    page.render_name_section(&mut file)?;
    page.render_synopsis_section(&mut file)?;
    page.render_description_section(&mut file)?;
    page.render_options_section(&mut file)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut file)?;
    }
    let more = command.get_after_long_help().or_else(|| command.get_after_help());
    closing_sections(&more.map(ToString::to_string).unwrap_or_default()).to_writer(&mut file)?;
    file.flush()
}

/// What stands behind the flags in `--help`: each `Heading:` begins a section, in which lines stay as they are.
fn closing_sections(text: &str) -> Roff {
    let mut roff = Roff::default();
    for line in text.lines() {
        match line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')) {
            Some(heading) => {
                roff.control("SH", [heading.to_uppercase().as_str()]).control("nf", []);
            }
            None => {
                roff.text([roman(line)]);
            }
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_examples_as_they_are_typed() {
        let list = Command::new("list")
            .about("List goods")
            .after_help("Example:\n  shop list 'a b'\n  shop list .x");
        let hidden = Command::new("secret").hide(true);
        let shop = Command::new("shop").subcommand(list).subcommand(hidden);
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(write(shop, folder.path()), Ok(5));
        let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).expect(path);
        let page = read("share/man/man1/shop-list.1");
        assert!(page.contains("shop\\-list \\- List goods"), "{page}");
        let (_, example) = page.split_once(".SH EXAMPLE\n.nf\n").expect("a section of its own");
        assert_eq!(example.lines().count(), 2, "{example}");
        assert!(read("share/man/man1/shop.1").contains("list"), "subcommands are listed");
        assert!(!folder.path().join("share/man/man1/shop-secret.1").exists());
        for path in [
            "share/bash-completion/completions/shop",
            "share/zsh/site-functions/_shop",
            "share/fish/vendor_completions.d/shop.fish",
        ] {
            assert!(read(path).contains("list"), "{path}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("it is written");
        let refused = write(Command::new("shop"), &file).expect_err("a file is no folder");
        assert!(refused.to_string().contains("file/share/man/man1"), "{refused}");
    }
}
