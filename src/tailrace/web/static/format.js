// Figures for people.

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
const STEPS = [[86400 * 365, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function rate(value) {
  if (value >= 100) return count(value);
  return value.toLocaleString("en", { maximumFractionDigits: value >= 10 ? 1 : 2 });
}

export function bytes(value) {
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 && unit ? 1 : 0 })} ${UNITS[unit]}`;
}

// The two largest units of a time: 2 d 3 h.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds > 0 ? "< 1 s" : "0 s";
  const at = STEPS.findIndex(([size]) => seconds >= size);
  const [size, name] = STEPS[at];
  const whole = Math.floor(seconds / size);
  const next = STEPS[at + 1];
  const rest = next && whole < 10 ? Math.floor((seconds % size) / next[0]) : 0;
  return rest ? `${whole} ${name} ${rest} ${next[1]}` : `${whole} ${name}`;
}

export function clock(milliseconds, withDay = false) {
  const moment = new Date(milliseconds);
  const time = moment.toLocaleTimeString("en-GB");
  return withDay ? `${day(moment)} ${time}` : time;
}

export function day(moment) {
  const two = (number) => String(number).padStart(2, "0");
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
}

export function ago(seconds, now) {
  const passed = now - seconds;
  return passed < 1 ? "now" : `${duration(passed)} ago`;
}
