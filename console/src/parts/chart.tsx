// Charts: lines and stacked areas over time (uPlot), and distributions as bars.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { number } from "../words.ts";
import { stackedSums } from "./stack.ts";

export interface Series {
  name: string;
  colour: string; // the name of a CSS variable: "--cause-model"
  sign?: string; // a letter that stands with the colour
  values: readonly (number | null)[];
}

function cssValue(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** colourOf computes the colour of a CSS variable. A canvas does not understand light-dark(). */
function colourOf(element: HTMLElement, name: string): string {
  element.style.color = `var(${name})`;
  const colour = getComputedStyle(element).color;
  element.style.color = "";
  return colour;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const second = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC" });

/** timeNames writes the times below a chart, in UTC, as exactly as their distance needs. Of equal names in a row, only the first is written. */
export function timeNames(seconds: readonly number[], distance: number): string[] {
  const format = distance >= 86_400 ? day : distance >= 60 ? minute : second;
  const names = seconds.map((at) => format.format(new Date(at * 1000)));
  return names.map((name, i) => (name === names[i - 1] ? "" : name));
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

/**
 * TimeChart draws series over time, stacked on each other if `stacked`. `times` are in seconds. With
 * `step`, a value belongs to the period of so many seconds from its time on, and is drawn as a bar of
 * that width. A table says the same for people who do not see the chart.
 */
export function TimeChart({ label, times, series, stacked = false, unit = "", step, height = 220 }: { label: string; times: readonly number[]; series: readonly Series[]; stacked?: boolean; unit?: string; step?: number; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const scheme = useScheme();
  const data = useMemo(() => (stacked ? stackedSums(series.map((one) => one.values)) : series.map((one) => [...one.values])), [series, stacked]);
  useEffect(() => {
    const element = box.current;
    if (!element || times.length === 0) return;
    const quiet = colourOf(element, "--quiet"), line = colourOf(element, "--line");
    const axis: uPlot.Axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: `12px ${cssValue("--sans")}` };
    const bars = step === undefined ? undefined : uPlot.paths.bars?.({ size: [0.86, 60], align: 1 });
    const options: uPlot.Options = {
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      width: element.clientWidth, height, legend: { show: false }, cursor: { show: false }, padding: [8, 30, 0, 0],
      scales: { x: { time: true, ...(step === undefined ? {} : { range: () => [times[0] ?? 0, (times.at(-1) ?? 0) + step] as [number, number] }) }, y: { range: (_, __, most) => [0, Math.max(most * 1.05, 1)] } },
      axes: [{ ...axis, grid: { show: false }, space: 70, values: (_, splits, __, ___, distance) => timeNames(splits, distance) }, { ...axis, size: 48, values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? number(value) + unit : "")) }],
      series: [{}, ...series.map((one) => ({ stroke: colourOf(element, one.colour), width: 1.5, points: { show: step === undefined && times.length < 3 }, ...(stacked || step !== undefined ? { fill: colourOf(element, one.colour) } : {}), ...(bars ? { paths: bars, width: 0 } : {}) }))],
      ...(stacked && !bars ? { bands: series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number], dir: -1 as const })) } : {}),
    };
    const plot = new uPlot(options, [[...times], ...data] as uPlot.AlignedData, element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times, data, series, scheme, stacked, unit, step, height]);
  return (
    <figure class="chart">
      <div class="legend" aria-hidden="true">{series.map((one) => <span key={one.name}><i class={one.sign ? "sign" : "swatch"} style={{ background: `var(${one.colour})` }}>{one.sign}</i> {one.name}</span>)}</div>
      <div ref={box} class="plot" role="img" aria-label={label} />
      <details class="small">
        <summary>The same as a table</summary>
        <div class="scroll" tabIndex={0}>
          <table class="plain">
            <thead><tr><th scope="col">From (UTC)</th>{series.map((one) => <th key={one.name} scope="col" class="number">{one.name}</th>)}</tr></thead>
            <tbody>{times.map((time, i) => <tr key={time}><td>{new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")}</td>{series.map((one) => <td key={one.name} class="number">{one.values[i] ?? ""}</td>)}</tr>)}</tbody>
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
  beside?: number; // a second value, drawn beside the first in another colour
}

/** Bars draws a distribution as bars beside each other, with its numbers. `names` are those of the values and of the second values. */
export function Bars({ label, bars, low, high, names }: { label: string; bars: readonly Bar[]; low: string; high: string; names?: readonly [string, string] }) {
  const most = Math.max(1, ...bars.flatMap((bar) => [bar.value, bar.beside ?? 0]));
  const height = 96, width = 100 / Math.max(1, bars.length);
  const tall = (value: number) => (value === 0 ? 0 : Math.max(1.5, (value / most) * (height - 4)));
  const says = (bar: Bar) => `${bar.title}: ${names ? `${names[0]} ` : ""}${number(bar.value)}${bar.beside === undefined ? "" : `, ${names?.[1] ?? ""} ${number(bar.beside)}`}`;
  return (
    <figure class="bars">
      <svg viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" role="img" aria-label={`${label}. ${bars.map(says).join("; ")}`}>
        {bars.map((bar, i) => {
          const share = bar.beside === undefined ? 0.84 : 0.42;
          return (
            <g key={bar.title}>
              <title>{says(bar)}</title>
              <rect class={bar.colour ?? "bar-fill"} x={i * width + width * 0.08} width={width * share} y={height - tall(bar.value)} height={tall(bar.value)} />
              {bar.beside !== undefined && <rect class="bar-beside" x={i * width + width * 0.5} width={width * share} y={height - tall(bar.beside)} height={tall(bar.beside)} />}
            </g>
          );
        })}
      </svg>
      <figcaption class="small quiet" aria-hidden="true"><span>{low}</span><span>{high}</span></figcaption>
    </figure>
  );
}
