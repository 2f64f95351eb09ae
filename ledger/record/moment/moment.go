// Package moment parses the time formats that requests and events use.
package moment

import (
	"strconv"
	"time"
)

// Layout is the layout of times in events, for time.Format: RFC 3339 in UTC with microseconds
// (spec: Event body).
const Layout = "2006-01-02T15:04:05.000000Z"

// Parse parses an RFC 3339 time. It returns false if text is not valid. Two-digit fields must be in
// range, except that second 60 is accepted in minute 59. "T" and "Z" may be in either case. The
// fraction may have any number of digits, but digits beyond nanoseconds are dropped.
func Parse(text []byte) (time.Time, bool) {
	if len(text) < len("2006-01-02T15:04:05Z") || text[10]|0x20 != 't' || text[13] != ':' || text[16] != ':' {
		return time.Time{}, false
	}
	day, ok := parseDate(text[:10])
	hour, minute, second := twoDigits(text[11:]), twoDigits(text[14:]), twoDigits(text[17:])
	if !ok || hour > 23 || minute > 59 || second > 60 || second == 60 && minute != 59 {
		return time.Time{}, false
	}
	rest := text[19:]
	nanoseconds := 0
	if rest[0] == '.' {
		digits := 1
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if digits == 1 {
			return time.Time{}, false
		}
		padded := (string(rest[1:digits]) + "000000000")[:9]
		nanoseconds, _ = strconv.Atoi(padded) // cannot fail, because padded has nine digits
		rest = rest[digits:]
	}
	offset, ok := parseOffset(rest)
	at := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, second, nanoseconds, time.UTC)
	return at.Add(-offset), ok
}

// IsEventTime reports whether text is a time in the format that events use: RFC 3339 in UTC with
// microseconds and without leap seconds (spec: Event body).
func IsEventTime(text []byte) bool {
	if len(text) != len(Layout) || text[10] != 'T' || text[17] == '6' || text[19] != '.' || text[len(text)-1] != 'Z' {
		return false
	}
	_, ok := Parse(text)
	return ok
}

// parseDate parses a date like "2006-01-02". It is faster than time.Parse (BenchmarkExtend in
// proofs/audit).
func parseDate(text []byte) (time.Time, bool) {
	century, year, month, day := twoDigits(text), twoDigits(text[2:]), twoDigits(text[5:]), twoDigits(text[8:])
	if century > 99 || year > 99 || text[4] != '-' || month < 1 || month > 12 || text[7] != '-' || day < 1 || day > 31 {
		return time.Time{}, false
	}
	date := time.Date(100*century+year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return date, date.Day() == day
}

// parseOffset parses "Z" or an offset like "+01:00".
func parseOffset(text []byte) (time.Duration, bool) {
	if len(text) == 1 && text[0]|0x20 == 'z' {
		return 0, true
	}
	if len(text) != len("+hh:mm") || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, false
	}
	hours, minutes := twoDigits(text[1:]), twoDigits(text[4:])
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if text[0] == '-' {
		offset = -offset
	}
	return offset, hours <= 23 && minutes <= 59
}

// twoDigits returns the number in the first two bytes of text. If they are not digits, it returns
// 100, which is out of range for every field.
func twoDigits(text []byte) int {
	if text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9' {
		return 100
	}
	return int(text[0]-'0')*10 + int(text[1]-'0')
}
