// Charts: lines and stacked areas over time (uPlot), and distributions as bars.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { number } from "../words.ts";
import { stackedSums } from "./stack.ts";

export interface Series {
  name: string;
  colour: string; // the name of a CSS variable: "--cause-model"
  values: readonly (number | null)[];
}

function cssValue(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** useScheme returns a number that changes with the colour scheme, so that charts are drawn again. */
function useScheme(): number {
  const [n, setN] = useState(0);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setN((old) => old + 1);
    dark.addEventListener("change", changed);
    addEventListener("colophon-scheme", changed);
    return () => {
      dark.removeEventListener("change", changed);
      removeEventListener("colophon-scheme", changed);
    };
  }, []);
  return n;
}

/** TimeChart draws series over time, stacked on each other if `stacked`. `times` are in seconds. A table says the same for people who do not see it. */
export function TimeChart({ label, times, series, stacked = false, unit = "" }: { label: string; times: readonly number[]; series: readonly Series[]; stacked?: boolean; unit?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const scheme = useScheme();
  const data = useMemo(() => (stacked ? stackedSums(series.map((one) => one.values)) : series.map((one) => [...one.values])), [series, stacked]);
  useEffect(() => {
    const element = box.current;
    if (!element || times.length === 0) return;
    const quiet = cssValue("--quiet"), line = cssValue("--line");
    const axis: uPlot.Axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: `12px ${cssValue("--sans")}` };
    const options: uPlot.Options = {
      width: element.clientWidth, height: 220, legend: { show: false }, cursor: { show: false }, padding: [8, 8, 0, 0],
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(most, 1)] } },
      axes: [{ ...axis, grid: { show: false } }, { ...axis, size: 48, values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? number(value) + unit : "")) }],
      series: [{}, ...series.map((one) => ({ stroke: cssValue(one.colour), width: 1.5, points: { show: times.length < 3 }, ...(stacked ? { fill: cssValue(one.colour) } : {}) }))],
      ...(stacked ? { bands: series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number], dir: -1 as const })) } : {}),
    };
    const plot = new uPlot(options, [[...times], ...data] as uPlot.AlignedData, element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 220 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times, data, series, scheme, stacked, unit]);
  return (
    <figure class="chart">
      <div class="legend" aria-hidden="true">{series.map((one) => <span key={one.name}><i class="swatch" style={{ background: `var(${one.colour})` }} />{one.name}</span>)}</div>
      <div ref={box} class="plot" role="img" aria-label={label} />
      <details class="small">
        <summary>The same as a table</summary>
        <div class="scroll" tabIndex={0}>
          <table class="plain">
            <thead><tr><th scope="col">From</th>{series.map((one) => <th key={one.name} scope="col" class="number">{one.name}</th>)}</tr></thead>
            <tbody>{times.map((time, i) => <tr key={time}><td>{new Date(time * 1000).toISOString().slice(0, 16).replace("T", " ")}</td>{series.map((one) => <td key={one.name} class="number">{one.values[i] ?? ""}</td>)}</tr>)}</tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

export interface Bar {
  title: string; // what the bar stands for
  value: number;
  colour?: string; // a class
}

/** Bars draws a distribution as bars beside each other, with its numbers. */
export function Bars({ label, bars, low, high }: { label: string; bars: readonly Bar[]; low: string; high: string }) {
  const most = Math.max(1, ...bars.map((bar) => bar.value));
  const height = 96, width = 100 / Math.max(1, bars.length);
  return (
    <figure class="bars">
      <svg viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${bars.map((bar) => `${bar.title}: ${bar.value}`).join("; ")}`}>
        {bars.map((bar, i) => {
          const tall = bar.value === 0 ? 0 : Math.max(1.5, (bar.value / most) * (height - 4));
          return <rect key={bar.title} class={bar.colour ?? "bar-fill"} x={i * width + width * 0.08} width={width * 0.84} y={height - tall} height={tall}><title>{`${bar.title}: ${number(bar.value)}`}</title></rect>;
        })}
      </svg>
      <figcaption class="small quiet" aria-hidden="true"><span>{low}</span><span>{high}</span></figcaption>
    </figure>
  );
}
