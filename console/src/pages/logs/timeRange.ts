// The time range of a query, as AWS's console has it.
import type { DateRangePickerProps } from "@cloudscape-design/components/date-range-picker";

export const relativeRanges: DateRangePickerProps.RelativeOption[] = [
  { key: "5m", amount: 5, unit: "minute", type: "relative" },
  { key: "30m", amount: 30, unit: "minute", type: "relative" },
  { key: "1h", amount: 1, unit: "hour", type: "relative" },
  { key: "3h", amount: 3, unit: "hour", type: "relative" },
  { key: "12h", amount: 12, unit: "hour", type: "relative" },
  { key: "1d", amount: 1, unit: "day", type: "relative" },
  { key: "1w", amount: 1, unit: "week", type: "relative" },
];

const seconds: Record<string, number> = { second: 1, minute: 60, hour: 3600, day: 86_400, week: 604_800 };

/** TimesOf returns a range in seconds since 1970, at a moment in milliseconds. */
export function timesOf(range: DateRangePickerProps.Value, now: number): { startTime: number; endTime: number } {
  if (range.type === "absolute") {
    return { startTime: second(range.startDate), endTime: second(range.endDate) };
  }
  const endTime = Math.ceil(now / 1000);
  const days: Record<string, number> = { month: 30, year: 365 };
  const unit = seconds[range.unit] ?? (days[range.unit] ?? 1) * 86_400;
  return { startTime: endTime - range.amount * unit, endTime };
}

const second = (date: string) => Math.floor(new Date(date).getTime() / 1000);

/** Problem says why a range cannot be asked for. */
export function problemOf(range: DateRangePickerProps.Value | null): string | undefined {
  if (range === null) return "Choose a time range.";
  if (range.type === "relative") {
    return Number.isFinite(range.amount) && range.amount > 0 ? undefined : "Enter how long the range is.";
  }
  const { startTime, endTime } = timesOf(range, 0);
  if (!Number.isFinite(startTime) || !Number.isFinite(endTime)) return "Choose a start and an end.";
  return startTime < endTime ? undefined : "The start must be before the end.";
}

export const rangeTexts: DateRangePickerProps.I18nStrings = {
  todayAriaLabel: "Today",
  nextMonthAriaLabel: "Next month",
  previousMonthAriaLabel: "Previous month",
  customRelativeRangeDurationLabel: "Duration",
  customRelativeRangeDurationPlaceholder: "Enter duration",
  customRelativeRangeOptionLabel: "Custom range",
  customRelativeRangeOptionDescription: "Set a custom range in the past",
  customRelativeRangeUnitLabel: "Unit of time",
  formatRelativeRange: ({ amount, unit }) => `Last ${amount === 1 ? unit : `${amount} ${unit}s`}`,
  formatUnit: (unit, value) => (value === 1 ? unit : `${unit}s`),
  dateTimeConstraintText: "For the date, use YYYY/MM/DD. For the time, use 24 hours.",
  relativeModeTitle: "Relative range",
  absoluteModeTitle: "Absolute range",
  relativeRangeSelectionHeading: "Choose a range",
  startDateLabel: "Start date",
  endDateLabel: "End date",
  startTimeLabel: "Start time",
  endTimeLabel: "End time",
  clearButtonLabel: "Clear",
  cancelButtonLabel: "Cancel",
  applyButtonLabel: "Apply",
};
