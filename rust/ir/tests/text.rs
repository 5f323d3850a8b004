//! The text form, read by a person and read back.

use pallas_rs_core::DType;
use pallas_rs_ir::builder::{Builder, Dim, barrier, smem};
use pallas_rs_ir::{Program, parse, verify};

fn pipeline() -> Program {
    let mut b = Builder::new("scale \"rows\"");
    b.dynamic_grid().cluster(&[2]).threads(2);
    b.options().seed = 3;
    let x = b.input("x_ref", DType::F32, &[8, 128]);
    let n = b.scalar_input("n", DType::I32);
    let o = b.in_out("o_ref", DType::F32, &[8, 128]);
    let scratch = vec![smem("row", DType::F32, &[128]), barrier("full", &[], 1)];
    b.at(3).scope(scratch, |b, refs| {
        let zero = b.int(0);
        b.at(4).for_loop(zero, n, &[], |b, i, _| {
            let from = b.at(5).view(x, &[Dim::Index(i)]);
            b.tma_load(from, refs[0], refs[1]);
            b.barrier_wait(refs[1]);
            let row = b.at(6).load(refs[0]);
            let two = b.float(2.0);
            let scaled = b.mul(row, two);
            let to = b.view(o, &[Dim::Index(i)]);
            b.store(to, scaled);
            vec![]
        });
        vec![]
    });
    b.finish()
}

const TEXT: &str = r#"kernel "scale \"rows\""
grid [operand 0]
cluster [2]
threads 2
concurrent
options {"seed":3}
arg %0 "x_ref": f32[8,128] = operand 1
arg %1 "n": i32[] = operand 2 by_value
arg %2 "o_ref": f32[8,128] = operand 3 result 0
body {
  scope(allocs:[(name:"row",space:smem,shape:[128],kind:data(dtype:float32,zeroed:false,layout:[])),(name:"full",space:smem,shape:[],kind:barrier(arrivals:1,orders_tensor_core:false))],collective:true) { |%3: ref<smem, f32[128]>, %4: ref<smem, barrier[]>|
    %5: i32 = constant(bits:0) @1
    for_loop %5, %1 { |%6: i32|
      %7: ref<gmem, f32[128]> = ref_slice(dims:[index(dynamic),slice(start:static(0),size:128,stride:1)]) %0, %6 @3
      copy_gmem_to_smem(oob:zeros,barrier:true,predicate:false,collective:None,more:false) %7, %3, %4 @3
      barrier_wait %4 @3
      %8: f32[128] = load %3 @4
      %9: f32 = constant(bits:1073741824) @4
      %10: f32[128] = broadcast(dims:[]) %9 @4
      %11: f32[128] = binary(kind:mul) %8, %10 @4
      %12: ref<gmem, f32[128]> = ref_slice(dims:[index(dynamic),slice(start:static(0),size:128,stride:1)]) %2, %6 @4
      store %12, %11 @4
    } @2
  } @1
}
@0 = "kernel.py":0 in "scale \"rows\""
@1 = "kernel.py":3 in "scale \"rows\""
@2 = "kernel.py":4 in "scale \"rows\""
@3 = "kernel.py":5 in "scale \"rows\""
@4 = "kernel.py":6 in "scale \"rows\""
"#;

#[test]
fn a_person_can_read_it() {
    let text = pipeline().to_string();
    assert_eq!(text, TEXT);
}

#[test]
fn it_reads_back() {
    let program = pipeline();
    let again = parse(&program.to_string()).unwrap();
    assert_eq!(again, program);
    verify(&again).unwrap();
}

#[test]
fn comments_and_line_breaks_are_free() {
    let text = pipeline().to_string().replace(" @3", "\n      @3 ; a \"comment\"");
    assert_eq!(parse(&text).unwrap(), pipeline());
}

#[test]
fn values_without_a_definition_keep_their_type() {
    let mut program = pipeline();
    program.values.push(pallas_rs_ir::Type::Scalar(DType::Bool));
    assert!(program.to_string().contains("\nunused %13: bool\n"));
    assert_eq!(parse(&program.to_string()).unwrap(), program);
}

#[track_caller]
fn refuses(from: &str, to: &str, expected: &str) {
    let text = pipeline().to_string();
    assert!(text.contains(from));
    let error = parse(&text.replacen(from, to, 1)).expect_err("the text is broken").to_string();
    assert_eq!(error, expected);
}

#[test]
fn errors_name_line_and_expectation() {
    refuses("threads 2", "threads two", "line 4: expected a number, found `two`");
    refuses("store", "stare", "line 22: expected an op, found `stare %12, %11 @4`");
    refuses("f32[8,128]", "f31[8,128]", "line 7: expected a type, found `f31[8,128] = operand 1`");
    refuses("%8:", "%7:", "line 17: expected one type for %7, found ` = load %3 @4`");
    let found = "cmem, f32[128]>, %4: ref<smem, barrier[]>|";
    let expected = format!("line 11: expected a memory space, found `{found}`");
    refuses("smem, f32", "cmem, f32", &expected);
}
