//! A file with a `[grid]` is many scenarios: one for each combination of its variables' values.
//!
//! ```toml
//! name = "bulk, $paths paths, loss $loss"
//! [grid]
//! paths = [1, 3, 8]
//! loss = [{ loss = 0.0, ratio = 0.95 }, { loss = 0.2, ratio = 0.92 }]    # values that go together
//! [topology]
//! parallel = { paths = "$paths", loss = "$loss" }
//! [expect]
//! ratio = ">= $ratio"
//! ```
//!
//! The text is filled in before it is parsed, so that errors still have the file's lines: `"$x"` as a whole becomes the
//! value, `$x` within a string its text.

use toml::{Table, Value};

use super::ScenarioError;

type Assignment = Vec<(String, Value)>;

/// The text of each scenario of the file, variables filled in; the last one varies fastest.
pub(super) fn expand(text: &str) -> Result<Vec<String>, ScenarioError> {
    let file: Table = toml::from_str(text).map_err(|error| ScenarioError::syntax(text, &error))?;
    let axes = match file.get("grid") {
        None => return Ok(vec![text.to_owned()]),
        Some(Value::Table(grid)) => grid.iter().map(axis).collect::<Result<Vec<_>, _>>()?,
        Some(_) => {
            return Err(ScenarioError::wrong("grid is no table: expected [grid] with lists of values"));
        }
    };
    let mut points: Vec<Assignment> = vec![Vec::new()];
    for axis in axes {
        let extend = |point: &Assignment| {
            let extended = axis.iter().map(|values| [point.clone(), values.clone()].concat());
            extended.collect::<Vec<_>>()
        };
        points = points.iter().flat_map(extend).collect();
    }
    points.iter().map(|point| fill(text, point)).collect()
}

/// The values of one variable, each with those that go with it.
fn axis((name, values): (&String, &Value)) -> Result<Vec<Assignment>, ScenarioError> {
    let values = values.as_array().filter(|values| !values.is_empty()).ok_or_else(|| {
        ScenarioError::wrong(format!("grid.{name} is {values}: expected a list of at least one value"))
    })?;
    let assignment = |value: &Value| match value {
        Value::Table(together) => together.clone().into_iter().collect(),
        single => vec![(name.clone(), single.clone())],
    };
    Ok(values.iter().map(assignment).collect())
}

fn fill(text: &str, point: &Assignment) -> Result<String, ScenarioError> {
    let mut text = text.to_owned();
    let mut longest_first: Vec<&(String, Value)> = point.iter().collect();
    longest_first.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, value) in longest_first {
        text = text.replace(&format!("\"${name}\""), &value.to_string());
        text = text.replace(&format!("${name}"), &plain(value));
    }
    let code = |line: &&str| !line.trim_start().starts_with('#');
    let left = text.lines().filter(code).find_map(|line| line.split_once('$').map(|(_, rest)| rest));
    match left {
        None => Ok(text),
        Some(rest) => {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            Err(ScenarioError::wrong(format!("${name} is no variable of [grid]")))
        }
    }
}

/// A value within a string.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_the_product_of_its_axes() {
        let text = "name = \"a $p at $loss, $link\"\nvalue = \"$p\"\n[grid]\np = [1, 2]\n\
                    q = [{ loss = 0.5, link = [\"x\", \"y\"] }]\n[x]\nlink = \"$link\"\n";
        let texts = expand(text).expect("a right grid");
        assert_eq!(texts.len(), 2);
        assert!(texts[1].starts_with("name = \"a 2 at 0.5, x y\"\nvalue = 2\n"), "{}", texts[1]);
        assert!(texts[1].ends_with("link = [\"x\", \"y\"]\n"), "{}", texts[1]);
    }

    #[test]
    fn an_unknown_variable_is_named() {
        let error = expand("name = \"$nought\"\n[grid]\np = [1]\n").unwrap_err();
        assert_eq!(error.to_string(), "$nought is no variable of [grid]");
        assert!(expand("[grid]\np = []\n").unwrap_err().to_string().contains("grid.p"));
    }
}
