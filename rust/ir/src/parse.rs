//! Reads the text form of [`crate::text`].

use crate::lane::LaneBody;
use crate::op::{OPS, Op};
use crate::options::Options;
use crate::program::{
    Arg, Binding, GridDim, Inst, MAX_DEPTH, Program, Region, Span, SpanId, Value,
};
use crate::types::{Elem, RefType, Shape, Space, Type, short_name};
use pallas_rs_core::DType;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::str::FromStr;
use thiserror::Error;

/// Why a text is not a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: expected {expected}, found `{found}`")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What the grammar asks for.
    pub expected: String,
    /// The rest of the line.
    pub found: String,
}

/// The program a text says; it has the right form but is not verified.
///
/// # Errors
/// The first place where the text has another form.
pub fn parse(text: &str) -> Result<Program, ParseError> {
    Parser { text, rest: text, types: BTreeMap::new() }.program()
}

impl FromStr for Program {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Program, ParseError> {
        parse(text)
    }
}

type Parsed<T> = Result<T, ParseError>;

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    /// A map, so that a large number in the text costs nothing.
    types: BTreeMap<u32, Type>,
}

impl<'a> Parser<'a> {
    fn program(mut self) -> Parsed<Program> {
        self.expect("kernel")?;
        let name = self.string()?;
        self.expect("grid")?;
        let grid = self.list("[", "]", Parser::grid_dim)?;
        let grid_names = self.names()?;
        let (mut cluster, mut cluster_names) = (Vec::new(), Vec::new());
        if self.eat("cluster") {
            cluster = self.list("[", "]", Parser::number)?;
            cluster_names = self.names()?;
        }
        self.expect("threads")?;
        let num_threads = self.number()?;
        let in_order = self.eat("in_order");
        if !in_order {
            self.expect("concurrent")?;
        }
        let sequential =
            if self.eat("sequential") { self.list("[", "]", Parser::number)? } else { Vec::new() };
        let options: Options =
            if self.eat("options") { self.json("options")? } else { Options::default() };
        let (mut params, mut args) = (Vec::new(), Vec::new());
        while self.eat("arg") {
            let (param, arg) = self.arg()?;
            params.push(param);
            args.push(arg);
        }
        self.expect("body")?;
        self.expect("{")?;
        let body = Region { params, ..self.region_after_params(0)? };
        while self.eat("unused") {
            self.typed_value()?;
        }
        let spans = self.table("@", Parser::span)?;
        let blobs = self.table("blob", Parser::blob)?;
        let lane_bodies = self.table("lanes", Parser::lane_body)?;
        if !self.peek().is_empty() {
            return self.fail("the end");
        }
        let values = self.values()?;
        Ok(Program {
            name,
            grid,
            grid_names,
            in_order,
            sequential,
            cluster,
            cluster_names,
            num_threads,
            args,
            body,
            values,
            spans,
            blobs,
            lane_bodies,
            options,
        })
    }

    fn grid_dim(&mut self) -> Parsed<GridDim> {
        Ok(if self.eat("operand") {
            GridDim::Operand(self.number()?)
        } else {
            GridDim::Static(self.number()?)
        })
    }

    fn names(&mut self) -> Parsed<Vec<String>> {
        if self.eat("names") { self.list("[", "]", Parser::string) } else { Ok(Vec::new()) }
    }

    fn arg(&mut self) -> Parsed<(Value, Arg)> {
        let param = self.value()?;
        let name = self.string()?;
        self.expect(":")?;
        let (dtype, shape) = (self.dtype()?, self.shape()?);
        self.expect("=")?;
        let operand = if self.eat("operand") { Some(self.number()?) } else { None };
        let result = if self.eat("result") { Some(self.number()?) } else { None };
        let binding = match (operand, result) {
            (Some(operand), None) => Binding::Operand(operand),
            (None, Some(result)) => Binding::Result(result),
            (Some(operand), Some(result)) => Binding::Aliased { operand, result },
            (None, None) if self.eat("zeroed") => Binding::Zeroed,
            (None, None) => return self.fail("operand, result or zeroed"),
        };
        let scratch = self.eat("scratch");
        let (by_value, semaphores) = (self.eat("by_value"), self.eat("semaphores"));
        let arg = Arg { name, dtype, shape, binding, by_value, semaphores, scratch };
        self.define(param, arg.param_type())?;
        Ok((param, arg))
    }

    fn region_after_params(&mut self, depth: usize) -> Parsed<Region> {
        if depth > MAX_DEPTH {
            return self.fail("regions that are not nested as deep");
        }
        let mut region = Region::default();
        loop {
            if self.eat("yield") {
                region.yields = self.values_list()?;
                self.expect("}")?;
                return Ok(region);
            }
            if self.eat("}") {
                return Ok(region);
            }
            region.insts.push(self.inst(depth)?);
        }
    }

    fn inst(&mut self, depth: usize) -> Parsed<Inst> {
        let mut results = Vec::new();
        if self.peek().starts_with('%') {
            results.push(self.typed_value()?);
            while self.eat(",") {
                results.push(self.typed_value()?);
            }
            self.expect("=")?;
        }
        let op = self.op()?;
        let operands = if self.peek().starts_with('%') { self.values_list()? } else { Vec::new() };
        let mut regions = Vec::new();
        while self.eat("{") {
            let params = if self.peek().starts_with('|') {
                self.list("|", "|", Parser::typed_value)?
            } else {
                Vec::new()
            };
            regions.push(Region { params, ..self.region_after_params(depth + 1)? });
        }
        self.expect("@")?;
        let span = SpanId(self.number()?);
        Ok(Inst { op, operands, results, regions, span })
    }

    fn op(&mut self) -> Parsed<Op> {
        let start = self.peek();
        let mnemonic = self.word();
        if !OPS.iter().any(|row| row.mnemonic == mnemonic) {
            self.rest = start;
            return self.fail("an op");
        }
        let parsed = if self.rest.starts_with('(') {
            ron::Deserializer::from_str(start).map_err(|e| e.code).and_then(|mut ron| {
                let op = serde::Deserialize::deserialize(&mut ron)?;
                self.rest = ron.remainder();
                Ok(op)
            })
        } else {
            ron::from_str(&format!("{mnemonic}()")).map_err(|e| e.code)
        };
        parsed.or_else(|error| {
            self.rest = start;
            self.fail(&format!("attributes of {mnemonic} ({error})"))
        })
    }

    fn values_list(&mut self) -> Parsed<Vec<Value>> {
        let mut values = vec![self.value()?];
        while self.eat(",") {
            values.push(self.value()?);
        }
        Ok(values)
    }

    fn typed_value(&mut self) -> Parsed<Value> {
        let value = self.value()?;
        self.expect(":")?;
        let ty = self.ty()?;
        self.define(value, ty)?;
        Ok(value)
    }

    fn value(&mut self) -> Parsed<Value> {
        self.expect("%")?;
        Ok(Value(self.number()?))
    }

    fn define(&mut self, value: Value, ty: Type) -> Parsed<()> {
        match self.types.insert(value.0, ty) {
            None => Ok(()),
            Some(_) => self.fail(&format!("one type for {value}")),
        }
    }

    fn values(&self) -> Parsed<Vec<Type>> {
        match self.types.keys().enumerate().find(|(i, value)| *i != **value as usize) {
            None => Ok(self.types.values().cloned().collect()),
            Some((missing, _)) => self.fail(&format!("a type for %{missing}")),
        }
    }

    fn ty(&mut self) -> Parsed<Type> {
        if !self.eat("ref") {
            let dtype = self.dtype()?;
            let tile = self.rest.starts_with('[');
            return Ok(if tile { Type::Tile(dtype, self.shape()?) } else { Type::Scalar(dtype) });
        }
        self.expect("<")?;
        let spaces = [Space::Gmem, Space::Smem, Space::Tmem, Space::Regs];
        let start = self.peek();
        let word = self.word();
        let Some(space) = spaces.into_iter().find(|space| space.to_string() == word) else {
            self.rest = start;
            return self.fail("a memory space");
        };
        self.expect(",")?;
        let elem = if self.eat("barrier") {
            Elem::Barrier
        } else if self.eat("semaphore") {
            Elem::Semaphore
        } else {
            Elem::Data(self.dtype()?)
        };
        let shape = self.shape()?;
        self.expect(">")?;
        Ok(Type::Ref(RefType { space, elem, shape }))
    }

    fn dtype(&mut self) -> Parsed<DType> {
        let start = self.peek();
        let word = self.word();
        let dtype = DType::ALL.iter().find(|dtype| short_name(**dtype) == word);
        dtype.copied().map_or_else(
            || {
                self.rest = start;
                self.fail("a type")
            },
            Ok,
        )
    }

    fn shape(&mut self) -> Parsed<Shape> {
        self.list("[", "]", Parser::number)
    }

    /// Entries `<keyword> <index> = …`, numbered from 0.
    fn table<T>(&mut self, keyword: &str, entry: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut entries = Vec::new();
        while self.eat(keyword) {
            if self.number::<usize>()? != entries.len() {
                return self.fail(&format!("{keyword} {} first", entries.len()));
            }
            self.expect("=")?;
            entries.push(entry(self)?);
        }
        Ok(entries)
    }

    fn span(&mut self) -> Parsed<Span> {
        let file = self.string()?;
        self.expect(":")?;
        let line = self.number()?;
        self.expect("in")?;
        let function = self.string()?;
        let via = if self.eat("via") { Some(self.string()?) } else { None };
        Ok(Span { file, line, function, via })
    }

    fn blob(&mut self) -> Parsed<Vec<u8>> {
        let digits = self.string()?;
        let bytes: Option<Vec<u8>> = (digits.as_bytes().chunks(2))
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        match bytes {
            Some(bytes) if digits.len() % 2 == 0 => Ok(bytes),
            _ => self.fail("bytes in hexadecimal before"),
        }
    }

    fn lane_body(&mut self) -> Parsed<LaneBody> {
        let start = self.peek();
        let parsed = ron::Deserializer::from_str(start).map_err(|e| e.code).and_then(|mut ron| {
            let body = serde::Deserialize::deserialize(&mut ron)?;
            self.rest = ron.remainder();
            Ok(body)
        });
        parsed.or_else(|error| self.fail(&format!("a body ({error})")))
    }

    // ---- tokens ----------------------------------------------------------------------------

    /// The text from the next token on.
    fn peek(&mut self) -> &'a str {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with(';') {
                return self.rest;
            }
            self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
        }
    }

    /// Takes the next word or punctuation mark if it is this one.
    fn eat(&mut self, token: &str) -> bool {
        let Some(behind) = self.peek().strip_prefix(token) else { return false };
        let cut_word = token.ends_with(is_word) && behind.starts_with(is_word);
        if !cut_word {
            self.rest = behind;
        }
        !cut_word
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { self.fail(&format!("`{token}`")) }
    }

    fn word(&mut self) -> &'a str {
        let text = self.peek();
        let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
        self.rest = &text[end..];
        &text[..end]
    }

    fn number<T: FromStr>(&mut self) -> Parsed<T> {
        let start = self.peek();
        let end = start.find(|c: char| !c.is_ascii_digit()).unwrap_or(start.len());
        match start[..end].parse() {
            Ok(number) => {
                self.rest = &start[end..];
                Ok(number)
            }
            Err(_) => self.fail("a number"),
        }
    }

    fn string(&mut self) -> Parsed<String> {
        self.json("a quoted string")
    }

    fn json<T: DeserializeOwned>(&mut self, what: &str) -> Parsed<T> {
        let start = self.peek();
        let mut values = serde_json::Deserializer::from_str(start).into_iter();
        let Some(Ok(value)) = values.next() else { return self.fail(what) };
        self.rest = &start[values.byte_offset()..];
        Ok(value)
    }

    fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        item: fn(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn fail<T>(&self, expected: &str) -> Parsed<T> {
        let consumed = &self.text[..self.text.len() - self.rest.len()];
        let line = consumed.matches('\n').count() + 1;
        let found = self.rest.lines().next().unwrap_or("").chars().take(60).collect();
        Err(ParseError { line, expected: expected.to_owned(), found })
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
