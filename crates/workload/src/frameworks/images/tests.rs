use crate::described::{Execution, OperatorSpec, Passes, Widths};
use crate::frameworks::{Framework, Fusion};
use crate::kernel_kind::{ConvolutionKernel, ImageLayout, KernelKind, Layout, MemoryKernel, Traffic};
use crate::layer::Demand;
use crate::operators::Counted;

use MemoryKernel::{BatchNorm, BatchNormGradient, PlaneNorm, PlaneNormGradient, Pool, PoolGradient, Reorder};

fn in_layout(layout: ImageLayout) -> Framework {
    Framework { kernels: Fusion::Eager, wide_bytes: 2, loss_bytes: 2, residual_bytes: None, layout }
}

fn launched(framework: Framework, kind: &str, sizes: &[(&str, u64)]) -> Passes {
    let sizes = sizes.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let operator = OperatorSpec { kind: kind.to_owned(), sizes };
    let execution = Execution { widths: Widths::of(2), framework: Some(framework) };
    operator.described_in(execution).unwrap().passes(Counted::All)
}

/// Two images of eight by eight.
fn convolution(layout: ImageLayout, channels: u64, kernel: u64, stride: u64) -> Passes {
    let sizes = [
        ("samples", 2),
        ("channels", channels),
        ("height", 8),
        ("width", 8),
        ("filters", 24),
        ("kernel", kernel),
        ("stride", stride),
        ("padding", kernel / 2),
    ];
    launched(in_layout(layout), "convolution", &sizes)
}

fn shapes(kernels: &[Demand]) -> Vec<[u64; 4]> {
    kernels.iter().filter_map(|kernel| kernel.gemm).map(|gemm| [gemm.m, gemm.k, gemm.n, gemm.count]).collect()
}

fn moved(kernels: &[Demand], of: MemoryKernel) -> Vec<u64> {
    let is = |kernel: &&Demand| matches!(kernel.kind, Some(KernelKind::Memory(traffic)) if traffic.kernel == of);
    kernels.iter().filter(is).map(|kernel| kernel.bytes).collect()
}

fn implicit(pass: Layout, padded: Option<ImageLayout>) -> Option<KernelKind> {
    Some(KernelKind::Convolution(ConvolutionKernel { pass, padded }))
}

#[test]
fn pixels_are_rows_of_products_in_nhwc() {
    let passes = convolution(ImageLayout::Nhwc, 16, 1, 1);
    assert_eq!(shapes(&passes.forward), [[128, 16, 24, 1]]);
    assert_eq!(passes.forward[0].kind, Some(KernelKind::Product(Layout::Nt)));
    assert_eq!(passes.weight_grad[0].kind, Some(KernelKind::Product(Layout::Tn)));
    assert_eq!(passes.input_grad[0].kind, Some(KernelKind::Product(Layout::Nn)));
}

#[test]
fn pixels_are_columns_of_a_product_for_each_image_in_nchw() {
    let passes = convolution(ImageLayout::Nchw, 16, 1, 1);
    assert_eq!(shapes(&passes.forward), [[24, 16, 64, 2]]);
    assert_eq!(shapes(&passes.weight_grad), [[24, 128, 16, 1]]);
    assert_eq!(shapes(&passes.input_grad), [[16, 24, 64, 2]]);
    assert_eq!(passes.forward.len() + passes.weight_grad.len() + passes.input_grad.len(), 3);
}

#[test]
fn windows_are_implicit_products() {
    let passes = convolution(ImageLayout::Nhwc, 16, 3, 1);
    assert_eq!(shapes(&passes.forward), [[128, 144, 24, 1]]);
    assert_eq!(shapes(&passes.weight_grad), [[144, 128, 24, 1]]);
    assert_eq!(shapes(&passes.input_grad), [[128, 216, 16, 1]]);
    assert_eq!(passes.forward[0].kind, implicit(Layout::Nt, None));
    assert_eq!(passes.forward[0].bytes, 2 * (128 * 16 + 144 * 24 + 128 * 24));
    let flops = [&passes.forward, &passes.weight_grad, &passes.input_grad].map(|pass| pass[0].flops);
    assert_eq!(flops, [2 * 128 * 144 * 24; 3]);
}

#[test]
fn windows_that_step_have_a_part_of_the_taps_in_the_gradient_of_the_input() {
    let passes = convolution(ImageLayout::Nhwc, 16, 3, 2);
    assert_eq!(shapes(&passes.forward), [[32, 144, 24, 1]]);
    assert_eq!(shapes(&passes.input_grad), [[32, 54, 16, 4]]); // nine taps in four classes
    assert_eq!(passes.input_grad[0].gemm.unwrap().flops(), passes.input_grad[0].flops);
    // A filter of one pixel reads a quarter of them, and its gradient writes all.
    let single = convolution(ImageLayout::Nhwc, 16, 1, 2);
    assert_eq!(shapes(&single.input_grad), [[32, 24, 16, 1]]);
    assert_eq!(single.forward[0].bytes, 2 * (32 * 16 + 16 * 24 + 32 * 24));
    assert_eq!(single.input_grad[0].bytes, 2 * (128 * 16 + 16 * 24 + 32 * 24));
}

#[test]
fn three_channels_are_padded_to_eight_and_count_as_three() {
    let passes = convolution(ImageLayout::Nhwc, 3, 3, 1);
    assert_eq!(shapes(&passes.forward), [[128, 72, 24, 1]]);
    let kernel = passes.forward.last().unwrap();
    assert_eq!(kernel.kind, implicit(Layout::Nt, Some(ImageLayout::Nhwc)));
    assert_eq!(kernel.flops, 2 * 128 * 27 * 24);
    assert_eq!(moved(&passes.forward, Reorder), [2 * 128 * (3 + 8), 2 * 9 * 24 * (3 + 8)]);
}

#[test]
fn both_tensors_and_the_result_change_their_order_in_nchw() {
    let passes = convolution(ImageLayout::Nchw, 16, 3, 1);
    let (input, weights, results) = (2 * 2 * 128 * 16, 2 * 2 * 144 * 24, 2 * 2 * 128 * 24);
    assert_eq!(moved(&passes.forward, Reorder), [input, weights, results]);
    assert_eq!(moved(&passes.weight_grad, Reorder), [input, results, weights]);
    assert_eq!(moved(&passes.input_grad, Reorder), [results, weights, input]);
    assert_eq!(passes.forward.last().unwrap().gemm, None);
    // So it is with filters of one pixel that step.
    assert_eq!(convolution(ImageLayout::Nchw, 16, 1, 2).forward.len(), 4);
}

#[test]
fn weights_of_four_bytes_are_cast() {
    let framework = Framework { wide_bytes: 4, ..in_layout(ImageLayout::Nhwc) };
    let sizes =
        [("samples", 2), ("channels", 8), ("height", 8), ("width", 8), ("filters", 4), ("kernel", 1), ("stride", 1)];
    let passes = launched(framework, "convolution", &sizes);
    assert_eq!(moved(&passes.forward, MemoryKernel::Elementwise), [8 * 4 * 6]);
    assert_eq!(moved(&passes.weight_grad, MemoryKernel::Cast), [8 * 4 * 6]);
}

#[test]
fn normalisations_sweep_three_and_five_times_and_in_nchw_by_channel() {
    let sizes = [("samples", 2), ("channels", 16), ("height", 8), ("width", 8)];
    let n = 2 * 2048;
    let nhwc = launched(in_layout(ImageLayout::Nhwc), "batch-norm", &sizes);
    assert_eq!(moved(&nhwc.forward, BatchNorm), [3 * n]);
    assert_eq!(moved(&nhwc.input_grad, BatchNormGradient), [5 * n]);
    let nchw = launched(in_layout(ImageLayout::Nchw), "batch-norm", &sizes);
    assert_eq!(moved(&nchw.forward, PlaneNorm), [n, 2 * n]);
    assert_eq!(moved(&nchw.input_grad, PlaneNormGradient), [5 * n]);
    let columns = |kernel: &Demand| match kernel.kind {
        Some(KernelKind::Memory(Traffic { columns, .. })) => columns,
        _ => 0,
    };
    assert_eq!(nchw.forward.iter().map(columns).collect::<Vec<_>>(), [0, 16, 0, 0]);
}

#[test]
fn maxima_read_their_windows_and_keep_an_index() {
    let sizes =
        [("samples", 2), ("channels", 16), ("height", 8), ("width", 8), ("window", 3), ("stride", 2), ("padding", 1)];
    let passes = launched(in_layout(ImageLayout::Nhwc), "max-pool", &sizes);
    assert_eq!(moved(&passes.forward, Pool), [2 * 16 * 16 * (2 * 9 + 2 + 8)]);
    assert_eq!(moved(&passes.input_grad, PoolGradient), [2 * 16 * 64 * (2 + 2 + 8)]);
}

#[test]
fn a_bias_behind_a_convolution_is_a_kernel_and_its_gradient_a_sum_over_pixels() {
    let sizes = [("samples", 2), ("channels", 16), ("height", 8), ("width", 8)];
    let passes = launched(in_layout(ImageLayout::Nhwc), "channel-bias", &sizes);
    assert_eq!(moved(&passes.forward, MemoryKernel::Elementwise), [2 * 2 * 2048]);
    assert_eq!(moved(&passes.weight_grad, MemoryKernel::ColumnSum), [2 * 2048]);
}

#[test]
fn a_sum_of_two_ways_has_the_gradients_of_both_and_may_be_narrower_than_weights() {
    let sizes = [("rows", 2), ("features", 16)];
    let wide = Framework { wide_bytes: 4, ..in_layout(ImageLayout::Nhwc) };
    let narrow = Framework { residual_bytes: Some(2), ..wide };
    assert_eq!(launched(wide, "add", &sizes).forward[0].bytes, 32 * (4 + 4 + 2));
    assert_eq!(moved(&launched(wide, "add", &sizes).input_grad, MemoryKernel::Elementwise), [3 * 32 * 4, 32 * 6]);
    assert_eq!(launched(narrow, "add", &sizes).input_grad[0].bytes, 3 * 32 * 2);
    let fork = launched(narrow, "fork", &sizes);
    assert!(fork.forward.is_empty() && fork.input_grad.is_empty());
}
