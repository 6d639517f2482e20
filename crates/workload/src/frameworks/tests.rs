use super::*;
use crate::described::{Execution, OperatorSpec, Passes, Widths};
use crate::operators::Counted;

const EAGER: Framework =
    Framework { kernels: Fusion::Eager, wide_bytes: 2, loss_bytes: 2, residual_bytes: None, layout: ImageLayout::Nhwc };

fn launched(framework: Framework, kind: &str, sizes: &[(&str, u64)]) -> Passes {
    let sizes = sizes.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let operator = OperatorSpec { kind: kind.to_owned(), sizes };
    let execution = Execution { widths: Widths::of(2), framework: Some(framework) };
    operator.described_in(execution).unwrap().passes(Counted::All)
}

fn kinds(kernels: &[Demand]) -> Vec<(Option<KernelKind>, u64)> {
    kernels.iter().map(|kernel| (kernel.kind, kernel.bytes)).collect()
}

fn of(kernel: MemoryKernel, bytes: u64) -> (Option<KernelKind>, u64) {
    (Some(KernelKind::Memory(Traffic::of(kernel))), bytes)
}

fn wide(kernel: MemoryKernel, bytes: u64) -> (Option<KernelKind>, u64) {
    (Some(KernelKind::Memory(Traffic { wide: true, ..Traffic::of(kernel) })), bytes)
}

fn sum_of(columns: u32, bytes: u64) -> (Option<KernelKind>, u64) {
    (Some(KernelKind::Memory(Traffic { columns, ..Traffic::of(ColumnSum) })), bytes)
}

fn norm_sum(bytes: u64, wide: bool) -> (Option<KernelKind>, u64) {
    (Some(KernelKind::Memory(Traffic { kernel: NormSum, wide, columns: 16 })), bytes)
}

#[test]
fn passes_of_a_linear_layer_have_layouts_and_the_gradient_of_a_bias_is_a_sum() {
    let sizes = [("rows", 8), ("inputs", 16), ("outputs", 32), ("bias", 1)];
    let passes = launched(EAGER, "linear", &sizes);
    let layouts = |kernels: &[Demand]| kernels.iter().filter(|k| k.gemm.is_some()).map(|k| k.kind).collect::<Vec<_>>();
    assert_eq!(layouts(&passes.forward), [Some(KernelKind::Product(Layout::Nt))]);
    assert_eq!(layouts(&passes.weight_grad), [Some(KernelKind::Product(Layout::Tn))]);
    assert_eq!(layouts(&passes.input_grad), [Some(KernelKind::Product(Layout::Nn))]);
    assert_eq!(kinds(&passes.weight_grad)[1..], [sum_of(32, 2 * 8 * 32)]);
    // Weights of four bytes are cast, and their gradients are cast back.
    let autocast = launched(Framework { wide_bytes: 4, ..EAGER }, "linear", &sizes);
    let bytes = 6 * (16 * 32 + 32);
    assert_eq!(kinds(&autocast.forward)[0], wide(Elementwise, bytes));
    assert_eq!(*kinds(&autocast.weight_grad).last().unwrap(), wide(Cast, bytes));
    assert_eq!(autocast.forward[1..], passes.forward);
}

#[test]
fn normalisations_run_in_the_type_of_the_residual_stream() {
    let sizes = [("rows", 8), ("features", 16)];
    let passes = launched(EAGER, "rms-norm", &sizes);
    assert_eq!(kinds(&passes.forward), [of(RmsNorm, 512)]);
    assert_eq!(kinds(&passes.weight_grad), [norm_sum(512, false)]);
    assert_eq!(kinds(&passes.input_grad), [of(NormGradient, 768)]);
    let autocast = launched(Framework { wide_bytes: 4, ..EAGER }, "rms-norm", &sizes);
    let summed = norm_sum(1024, true);
    assert_eq!(kinds(&autocast.forward), [wide(RmsNorm, 1024), wide(Elementwise, 768)]);
    assert_eq!(kinds(&autocast.weight_grad), [wide(Cast, 768), summed]);
    assert_eq!(kinds(&launched(EAGER, "layer-norm", &sizes).forward), [of(Norm, 512)]);
}

#[test]
fn rotary_positions_are_ten_kernels_or_one() {
    let sizes = [("rows", 8), ("features", 16)];
    let eager = launched(EAGER, "rotary", &sizes);
    assert_eq!(kinds(&eager.forward), [2, 1, 2, 2, 3].map(|tensors| of(Strided, tensors * 256)));
    let fused = launched(Framework { kernels: Fusion::Megatron, ..EAGER }, "rotary", &sizes);
    assert_eq!(kinds(&fused.forward), [of(Elementwise, 512)]);
    assert_eq!(fused.forward, fused.input_grad);
}

#[test]
fn fused_attention_is_known_by_its_heads() {
    let sizes = [
        ("sequences", 2),
        ("heads", 6),
        ("kv_heads", 3),
        ("queries", 4),
        ("head_size", 8),
        ("causal", 1),
        ("fused", 1),
    ];
    let passes = launched(EAGER, "attention", &sizes);
    let shape = AttentionKernel { backward: false, causal: true, heads: 12, queries: 4, keys: 4, head_size: 8 };
    assert_eq!(passes.forward[0].kind, Some(KernelKind::Attention(shape)));
    assert_eq!(passes.input_grad[0].kind, Some(KernelKind::Attention(AttentionKernel { backward: true, ..shape })));
    let given = 2 * 4 * 8 * (6 + 3 + 3);
    assert_eq!(kinds(&passes.input_grad)[1..], [of(Elementwise, 2 * 2 * given)]);
}

#[test]
fn a_loss_in_four_bytes_casts_logits_and_that_of_megatron_is_a_chain() {
    let sizes = [("rows", 8), ("vocabulary", 16)];
    let n = 128;
    let narrow = launched(EAGER, "softmax-cross-entropy", &sizes);
    assert_eq!(kinds(&narrow.forward), [of(Loss, 4 * n)]);
    assert_eq!(kinds(&narrow.input_grad), [of(Elementwise, 2 * n), of(LossGradient, 6 * n)]);
    let cast = launched(Framework { loss_bytes: 4, ..EAGER }, "softmax-cross-entropy", &sizes);
    assert_eq!(kinds(&cast.forward), [wide(Cast, 6 * n), wide(Loss, 8 * n)]);
    let chain = Framework { kernels: Fusion::Megatron, wide_bytes: 2, loss_bytes: 4, ..EAGER };
    let bytes = |kernels: &[Demand]| kernels.iter().map(|kernel| kernel.bytes).sum::<u64>();
    let megatron = launched(chain, "softmax-cross-entropy", &sizes);
    assert_eq!((bytes(&megatron.forward), bytes(&megatron.input_grad)), ((6 + 32) * n, (8 + 6) * n));
}

/// Whatever the framework, products have the operations that the operator needs.
#[test]
fn every_kind_keeps_its_products_and_its_parameters() {
    for kind in crate::described::KINDS {
        let sizes: Vec<(&str, u64)> =
            kind.sizes.iter().map(|size| (size.name, u64::from(!size.form.is_optional()) * 2)).collect();
        let given: Vec<_> = sizes.iter().copied().filter(|&(_, value)| value > 0).collect();
        let given =
            &given.iter().map(|&(n, v)| (n, if n == "kernel" || n == "window" { 1 } else { v })).collect::<Vec<_>>();
        let spec = OperatorSpec {
            kind: kind.name.to_owned(),
            sizes: given.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
        };
        let plain = spec.described(2).unwrap_or_else(|refusal| panic!("{}: {refusal}", kind.name));
        for kernels in [Fusion::Eager, Fusion::Compile, Fusion::Megatron] {
            let framework = Framework { kernels, wide_bytes: 4, loss_bytes: 4, ..EAGER };
            let described = spec.described_in(Execution { widths: Widths::of(2), framework: Some(framework) }).unwrap();
            let products = |of: &crate::described::Described| {
                let Passes { forward, weight_grad, input_grad } = of.passes(Counted::All);
                let all = forward.into_iter().chain(weight_grad).chain(input_grad);
                all.filter(|kernel| kernel.gemm.is_some()).map(|kernel| kernel.flops).collect::<Vec<_>>()
            };
            assert_eq!(products(&described), products(&plain), "{}", kind.name);
            assert_eq!(described.params(), plain.params(), "{}", kind.name);
        }
    }
}
