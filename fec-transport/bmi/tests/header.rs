//! The headers are right C and C++, and declare what the library has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interface, by the names that it has had since 2005.
const FUNCTIONS: [&str; 24] = [
    "BMI_initialize",
    "BMI_finalize",
    "BMI_open_context",
    "BMI_close_context",
    "BMI_memalloc",
    "BMI_memfree",
    "BMI_addr_lookup",
    "BMI_addr_rev_lookup",
    "BMI_addr_rev_lookup_unexpected",
    "BMI_query_addr_range",
    "BMI_post_send",
    "BMI_post_send_list",
    "BMI_post_sendunexpected",
    "BMI_post_sendunexpected_list",
    "BMI_post_recv",
    "BMI_post_recv_list",
    "BMI_test",
    "BMI_testsome",
    "BMI_testcontext",
    "BMI_testunexpected",
    "BMI_unexpected_free",
    "BMI_cancel",
    "BMI_set_info",
    "BMI_get_info",
];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What is wrong with a file of a language, by a compiler that takes every warning for an error.
fn complaints(compiler: &str, language: &[&str], file: &Path) -> String {
    let output = Command::new(compiler)
        .args(language)
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I"])
        .arg(folder().join("include"))
        .arg(file)
        .output()
        .expect("there is a compiler");
    match output.status.success() {
        true => String::new(),
        false => String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn the_headers_are_c99_and_cpp_without_a_warning() {
    let scratch = tempfile::tempdir().expect("a folder");
    for header in ["bmi.h", "bmi-types.h"] {
        // Twice, for the guards.
        let text = format!("#include \"{header}\"\n#include \"{header}\"\nint nothing;\n");
        for (compiler, language) in [
            ("cc", &["-x", "c", "-std=c99"][..]),
            ("cc", &["-x", "c", "-std=c11", "-Wstrict-prototypes"]),
            ("c++", &["-x", "c++", "-std=c++98"]),
            ("c++", &["-x", "c++", "-std=c++17"]),
        ] {
            let file = scratch.path().join("program");
            fs::write(&file, &text).expect("possible");
            assert_eq!(complaints(compiler, language, &file), "", "{compiler} {language:?} {header}");
        }
    }
}

/// The functions as cbindgen finds them in the sources.
fn declarations() -> String {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        style: cbindgen::Style::Tag,
        usize_is_size_t: true,
        no_includes: true,
        documentation: false,
        // The header has both, and so they are not to be declared again.
        export: cbindgen::ExportConfig {
            exclude: vec!["PVFS_hint_s".to_owned(), "BMI_unexpected_info".to_owned()],
            ..Default::default()
        },
        ..Default::default()
    };
    let sources = ["process", "context", "address", "post", "test", "info", "error"];
    let builder = sources.iter().fold(cbindgen::Builder::new().with_config(config), |builder, source| {
        builder.with_src(folder().join(format!("src/{source}.rs")))
    });
    let mut text = Vec::new();
    builder.generate().expect("right sources").write(&mut text);
    String::from_utf8(text).expect("C is text")
}

#[test]
fn the_header_declares_what_the_library_has() {
    let declarations = declarations();
    let scratch = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| -> PathBuf {
        let path = scratch.path().join(name);
        fs::write(&path, text).expect("possible");
        path
    };
    // A second declaration of another type is an error in C.
    let names = ["PVFS_hint_s", "BMI_unexpected_info"].map(|name| format!("typedef struct {name} {name};\n"));
    let both = format!("#include \"bmi.h\"\n{}{declarations}", names.concat());
    assert_eq!(complaints("cc", &["-std=c99"], &write("both.c", &both)), "", "{declarations}");
    let wrong = both.replace("int BMI_finalize(void)", "long BMI_finalize(void)");
    assert!(complaints("cc", &["-std=c99"], &write("wrong.c", &wrong)).contains("BMI_finalize"));
    for function in FUNCTIONS {
        assert!(declarations.contains(&format!("{function}(")), "the library has no {function}");
        let use_it = format!("#include \"bmi.h\"\nvoid (*it)(void) = (void (*)(void)){function};\n");
        assert_eq!(complaints("cc", &["-std=c99"], &write("use.c", &use_it)), "");
    }
    let count = declarations.matches(" BMI_").count() + declarations.matches("*BMI_").count();
    assert!(count > FUNCTIONS.len(), "{declarations}");
}
