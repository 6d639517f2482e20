use super::*;
use crate::compute::tiles::tests::tiles;
use crate::kernel_kind::{AttentionKernel, KernelKind};
use crate::layer::Gemm;

/// A GPU of ten SMs of 1 FLOP/s each.
fn gpu() -> Gpu {
    let products = Tiles { start_ps: 3 * PS_PER_S, last_wave: 0.5, layouts: [0.5, 0.25], ..tiles(4, 2, &[1], 0) };
    let attention =
        Attention { block: 4, sustained: [0.5, 0.25], reuse: 8.0, fill: [1.0, 2.0], tail: 0.5, start_ps: 2 * PS_PER_S };
    let efficiency = MemoryKernel::ALL.into_iter().map(|kind| (kind, 0.5)).collect();
    Gpu { products, convolutions: None, attention, memory: memory(efficiency), power: None }
}

fn memory(efficiency: BTreeMap<MemoryKernel, f64>) -> Memory {
    Memory {
        start_ps: PS_PER_S,
        starts_ps: [(MemoryKernel::Update, 7 * PS_PER_S)].into(),
        efficiency,
        efficiency_wide: [(MemoryKernel::Norm, 0.25)].into(),
        per_column: [(MemoryKernel::ColumnSum, 0.01)].into(),
        per_element_ps: 1e12,
        per_doubling: 0.5,
        cache: None,
    }
}

fn product(layout: Option<Layout>, n: u64) -> Demand {
    let gemm = Gemm { m: 4, k: 16, n, count: 1, operands: [0; 2] };
    Demand { kind: layout.map(KernelKind::Product), ..Demand::of_gemm(gemm, 0) }
}

#[test]
fn products_have_a_rate_for_each_layout_and_a_last_wave_that_may_be_shorter() {
    let of = |layout, n| gpu().seconds(product(layout, n), 0, 10.0, 1.0);
    let wave = 2.0 * 4.0 * 2.0 * 16.0 / 0.5;
    assert_eq!(of(None, 20), 3.0 + wave);
    assert_eq!([Layout::Nt, Layout::Nn, Layout::Tn].map(|l| of(Some(l), 20)), [1.0, 2.0, 4.0].map(|f| 3.0 + f * wave));
    assert_eq!(of(None, 2), 3.0 + wave); // one tile takes as long as ten
    assert_eq!(of(None, 30), 3.0 + wave * (2.0 - 0.5 * 0.5)); // a wave and a half
}

fn convolutions() -> Convolutions {
    Convolutions { products: Tiles { layouts: [0.5, 0.5], ..tiles(4, 2, &[1], 0) }, padded: [0.5, 0.25] }
}

#[test]
fn convolutions_have_constants_of_their_own_and_padded_ones_a_fraction_of_the_rate() {
    let of = |pass, padded| {
        let kind = KernelKind::Convolution(ConvolutionKernel { pass, padded });
        let demand = Demand { kind: Some(kind), ..product(None, 20) };
        [Some(convolutions()), None].map(|convolutions| Gpu { convolutions, ..gpu() }.seconds(demand, 0, 10.0, 1.0))
    };
    let wave = 2.0 * 4.0 * 2.0 * 16.0 / 0.5;
    assert_eq!(of(Layout::Nt, None), [wave, 3.0 + wave]);
    assert_eq!(of(Layout::Tn, None), [2.0 * wave, 3.0 + 4.0 * wave]);
    assert_eq!(of(Layout::Nt, Some(ImageLayout::Nhwc))[0], 2.0 * wave);
    assert_eq!(of(Layout::Nt, Some(ImageLayout::Nchw))[0], 4.0 * wave);
}

#[test]
fn a_softmax_takes_longer_for_longer_rows_and_not_for_wider_elements() {
    let of = |columns, wide, bytes| {
        let traffic = Traffic { columns, wide, ..Traffic::of(MemoryKernel::Softmax) };
        let efficiency = [(MemoryKernel::Softmax, 0.25), (MemoryKernel::Elementwise, 1.0)].into();
        let memory = Memory { efficiency, ..gpu().memory };
        Gpu { memory, ..gpu() }.seconds(Demand::new(0, bytes).as_kind(KernelKind::Memory(traffic)), bytes, 10.0, 1.0)
    };
    assert_eq!([64, 1024, 2048, 4096].map(|columns| of(columns, false, 10)), [41.0, 41.0, 61.0, 81.0]);
    assert_eq!(of(2048, true, 20), of(2048, false, 10));
}

#[test]
fn an_update_takes_as_long_as_its_traffic_and_its_longest_chunk() {
    let of = |columns| {
        let traffic = Traffic { columns, ..Traffic::of(MemoryKernel::Update) };
        gpu().seconds(Demand::new(0, 4).as_kind(KernelKind::Memory(traffic)), 4, 10.0, 1.0)
    };
    assert_eq!([0, 6, 15].map(of), [7.0 + 8.0, 7.0 + 10.0, 7.0 + 17.0]);
}

#[test]
fn statistics_of_planes_begin_in_waves() {
    // Ten SMs have forty blocks at a time.
    let of = |columns| {
        let traffic = Traffic { columns, ..Traffic::of(MemoryKernel::PlaneNorm) };
        gpu().seconds(Demand::new(0, 0).as_kind(KernelKind::Memory(traffic)), 0, 10.0, 100.0)
    };
    assert_eq!([10, 40, 80].map(of), [1.0, 1.0, 2.0]);
}

#[test]
fn kernels_that_the_cache_holds_see_more_bandwidth() {
    let memory = Memory { cache: Some(Cache { bytes: 100, gain: 4.0 }), ..gpu().memory };
    let cached = Gpu { memory, ..gpu() };
    let of = |bytes| cached.seconds(Demand::new(0, bytes), bytes, 10.0, 1.0) - 1.0;
    assert_eq!(of(100), 200.0); // all from memory, at half of its bandwidth
    assert_eq!(of(300), 600.0);
    assert_eq!(of(50), 100.0 * (0.5 + 0.5 / 4.0)); // half of them are found
}

#[test]
fn attention_by_hand() {
    let shape = AttentionKernel { backward: false, causal: false, heads: 5, queries: 8, keys: 16, head_size: 8 };
    let demand = |shape, k| {
        let gemm = Gemm { m: 8, k, n: 16, count: 5, operands: [0; 2] };
        Demand::of_gemm(gemm, 0).as_kind(KernelKind::Attention(shape))
    };
    let of = |shape, k| gpu().seconds(demand(shape, k), 0, 10.0, 1.0);
    // Ten blocks on ten SMs: 16 keys each, and half of a block to wait for; a quarter of the peak.
    assert_eq!(of(shape, 16), 2.0 + 2.0 * 4.0 * 16.0 * (16.0 + 8.0) / 0.25);
    let causal = AttentionKernel { causal: true, ..shape };
    assert_eq!(of(causal, 16), 2.0 + 2.0 * 4.0 * 16.0 * (10.0 + 1.0 + 0.5 * 17.0) / 0.25);
    let backward = AttentionKernel { backward: true, ..causal };
    assert_eq!(of(backward, 40), 2.0 + 2.0 * 4.0 * 40.0 * (10.0 + 2.0 + 0.5 * 18.0) / 0.125);
    // Where it has little to compute, it takes as long as its bytes.
    assert_eq!(gpu().seconds(demand(shape, 16), 1_000_000, 10.0, 1.0), 2_000_000.0);
}

#[test]
fn what_memory_bounds_starts_and_moves_and_sums_over_rows_need_columns() {
    let of = |traffic| {
        let demand = Demand::new(7, 500).as_kind(KernelKind::Memory(traffic));
        gpu().seconds(demand, 500, 10.0, 100.0)
    };
    let norm = Traffic::of(MemoryKernel::Norm);
    assert_eq!([norm, Traffic { wide: true, ..norm }].map(of), [1.0 + 10.0, 1.0 + 20.0]);
    let sum = Traffic { columns: 10, ..Traffic::of(MemoryKernel::ColumnSum) };
    // Half of the bandwidth, and a hundredth of it for each column.
    assert!((of(sum) - (1.0 + 5.0 * 2f64.hypot(10.0))).abs() < 1e-9);
    assert!((of(Traffic { columns: 50, ..sum }) - (1.0 + 5.0 * 2f64.hypot(2.0))).abs() < 1e-9);
    assert_eq!(of(Traffic { columns: 50, ..norm }), 1.0 + 10.0); // a kind whose columns do not matter
    assert_eq!(of(Traffic::of(MemoryKernel::Update)), 7.0 + 10.0);
    let slower = Memory { efficiency: [(MemoryKernel::Elementwise, 0.1)].into(), ..gpu().memory };
    assert_eq!(Gpu { memory: slower, ..gpu() }.seconds(Demand::new(7, 50), 50, 10.0, 100.0), 1.0 + 5.0);
}

const POWER: Power = Power { limit_w: 10.0, idle_w: 2.0, per_flop_pj: 1e12, streaming_w: 1.0 };

#[test]
fn the_clock_falls_until_the_mean_power_is_the_limit() {
    // At the full clock 4 FLOP in 1 s: 2 + 4 W keep the limit.
    assert_eq!(POWER.clock(4.0, 0.0, |clock| 1.0 / clock), 1.0);
    // 16 FLOP/s would take 18 W: the clock x leaves 16 x of them, which take x joules each.
    let clock = POWER.clock(16.0, 0.0, |clock| 1.0 / clock);
    assert!((2.0 + 16.0 * clock * clock - 10.0).abs() < 1e-9);
    // Traffic that takes another second leaves products more.
    let mixed = POWER.clock(16.0, 1.0, |clock| 1.0 + 1.0 / clock);
    assert!(mixed > clock && mixed < 1.0);
    // What cannot be kept is drawn.
    assert!(POWER.clock(1e9, 0.0, |clock| 1.0 / clock) < 0.1);
}

#[test]
fn a_gpu_that_runs_kernels_over_and_over_is_as_slow_as_their_mix_lets_it_be() {
    let limited = |power| {
        let gpu = Gpu { power, products: Tiles { start_ps: 0, ..gpu().products }, ..gpu() };
        crate::Npu::new(10.0, 100.0, 1.0).unwrap().with_gpu(gpu)
    };
    let (product, traffic) = (product(None, 20), Demand::new(0, 1));
    let free = limited(None).throttled(&[(product, 1)]);
    assert_eq!(free.flops_per_s(), 10.0);
    // 2,560 FLOP in 512 s: 5 W, more than the 3 that a limit of 5 leaves.
    let tight = Some(Power { limit_w: 5.0, ..POWER });
    let alone = limited(tight).throttled(&[(product, 1)]);
    let mixed = limited(tight).throttled(&[(product, 1), (traffic, 100)]);
    assert!(alone.flops_per_s() < 10.0 && alone.flops_per_s() < mixed.flops_per_s());
    assert_eq!(alone.kernel(traffic), free.kernel(traffic));
    assert!(alone.kernel(product) > mixed.kernel(product));
    // A factor on times is no other clock.
    let gpu = Gpu { power: tight, products: Tiles { start_ps: 0, ..gpu().products }, ..gpu() };
    let twice = crate::Npu::new(10.0, 100.0, 2.0).unwrap().with_gpu(gpu).throttled(&[(product, 1)]);
    assert_eq!(twice.flops_per_s(), alone.flops_per_s());
}

#[test]
fn tensor_cores_draw_the_same_power_in_all_types_and_in_attention() {
    let gpu = Gpu { power: Some(Power { limit_w: 5.0, ..POWER }), ..gpu() };
    let of = |peak| crate::Npu::new(peak, 100.0, 1.0).unwrap().with_gpu(gpu.clone());
    let (wide, narrow) = (product(None, 20), Demand { narrow: true, ..product(None, 20) });
    let both = of(10.0).with_narrow(of(20.0));
    let (of_wide, of_narrow) = (both.clone().throttled(&[(wide, 1)]), both.clone().throttled(&[(narrow, 1)]));
    assert!(of_wide.flops_per_s() < 10.0);
    assert!((of_wide.flops_per_s() - of_narrow.flops_per_s()).abs() < 0.05 * of_wide.flops_per_s());
    assert!(of_narrow.kernel(narrow) > both.kernel(narrow)); // which slow down with the others
    let shape = AttentionKernel { backward: false, causal: false, heads: 1, queries: 4, keys: 4, head_size: 4 };
    let attention = Demand { kind: Some(KernelKind::Attention(shape)), gemm: None, ..wide };
    assert!(of(10.0).throttled(&[(attention, 1)]).flops_per_s() < 10.0);
}

#[test]
fn nonsense_is_refused_by_name() {
    let without = |kind| {
        let mut memory = gpu().memory;
        memory.efficiency.remove(&kind);
        memory
    };
    let wide = [(MemoryKernel::Norm, 0.0)].into();
    for (bad, field) in [
        (Gpu { memory: without(MemoryKernel::Update), ..gpu() }, "efficiency"),
        (Gpu { memory: Memory { efficiency_wide: wide, ..gpu().memory }, ..gpu() }, "efficiency_wide"),
        (
            Gpu { memory: Memory { per_column: [(MemoryKernel::ColumnSum, 0.0)].into(), ..gpu().memory }, ..gpu() },
            "per_column",
        ),
        (Gpu { memory: Memory { cache: Some(Cache { bytes: 1, gain: 0.0 }), ..gpu().memory }, ..gpu() }, "gain"),
        (Gpu { memory: Memory { per_element_ps: 0.0, ..gpu().memory }, ..gpu() }, "per_element_ps"),
        (Gpu { memory: Memory { per_doubling: 0.0, ..gpu().memory }, ..gpu() }, "per_doubling"),
        (Gpu { convolutions: Some(Convolutions { padded: [1.0, 0.0], ..convolutions() }), ..gpu() }, "padded"),
        (Gpu { power: Some(Power { limit_w: 0.0, ..POWER }), ..gpu() }, "limit_w"),
        (Gpu { power: Some(Power { streaming_w: 0.0, ..POWER }), ..gpu() }, "streaming_w"),
        (Gpu { attention: Attention { block: 0, ..gpu().attention }, ..gpu() }, "block"),
        (Gpu { attention: Attention { sustained: [1.0, 0.0], ..gpu().attention }, ..gpu() }, "sustained"),
        (Gpu { attention: Attention { tail: -1.0, ..gpu().attention }, ..gpu() }, "tail"),
        (Gpu { products: Tiles { sms: 0, ..gpu().products }, ..gpu() }, "sms"),
        (Gpu { products: Tiles { layouts: [1.0, 0.0], ..gpu().products }, ..gpu() }, "layouts"),
        (Gpu { products: Tiles { last_wave: -1.0, ..gpu().products }, ..gpu() }, "last_wave"),
    ] {
        let Err(NpuError::NotPositive { field: named, .. }) = bad.checked() else { panic!("{field} accepted") };
        assert_eq!(named, field);
    }
    assert!(gpu().checked().is_ok());
}
