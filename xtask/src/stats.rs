//! Medians, and the mean of paired ratios with its 95 % interval.

/// A mean ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Two-sided 95 % quantiles of Student's t distribution, for 1 to 30 degrees of freedom. Beyond these, the normal
/// distribution's 1.96 is close enough.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The geometric mean, for which half as long and twice as long are equally far from 1. `None` for fewer than two
/// ratios, or if one isn't positive.
pub(crate) fn ratio(ratios: &[f64]) -> Option<Ratio> {
    if ratios.len() < 2 || !ratios.iter().all(|ratio| *ratio > 0.0 && ratio.is_finite()) {
        return None;
    }
    let n = ratios.len() as f64;
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let within = T95.get(ratios.len() - 2).copied().unwrap_or(1.96) * (variance / n).sqrt();
    Some(Ratio { mean: mean.exp(), low: (mean - within).exp(), high: (mean + within).exp() })
}

/// The middle figure, or the mean of the two middle ones; NaN if there are no figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pairs_are_surely_equal_and_scattered_ones_are_not() {
        assert_eq!(ratio(&[2.0; 15]).map(|r| (r.mean, r.low, r.high)), Some((2.0, 2.0, 2.0)));
        let scattered = ratio(&[0.5, 2.0, 0.5, 2.0]).unwrap();
        assert!((scattered.mean - 1.0).abs() < 1e-9 && scattered.low < 0.4 && scattered.high > 2.5, "{scattered:?}");
        // By hand: the logarithms are 0, 0.1 and 0.2, their deviation is 0.1, and t for two degrees of freedom is
        // 4.303.
        let three = ratio(&[1.0, 0.1_f64.exp(), 0.2_f64.exp()]).unwrap();
        assert!((three.high.ln() - (0.1 + 4.303 * 0.1 / 3.0_f64.sqrt())).abs() < 1e-9, "{three:?}");
        assert_eq!((ratio(&[1.0]), ratio(&[1.0, 0.0]), ratio(&[])), (None, None, None));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
