package formats

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for systems without time zone data

	"colophon/ledger/record/fields"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
)

// naive matches a time without a zone, in the form that Python's isoformat and SQLite write.
var naive = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,9})?$`)

// spaced matches an RFC 3339 time with a space instead of the T, which is how Python's str formats
// a datetime.
var spaced = regexp.MustCompile(`^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))$`)

func isNaive(v pyjson.Value) bool {
	return v.Kind() == pyjson.String && naive.Match(v.Text())
}

// parseTime parses a time, which is either text or a number of seconds since 1970, and returns it
// in RFC 3339 format. If the text has no zone, it is taken to be in the given zone and zoned is
// true.
func parseTime(v pyjson.Value, zone *time.Location) (text string, zoned, ok bool) {
	switch v.Kind() {
	case pyjson.Integer, pyjson.Float:
		text, ok = unixTime(v)
		return text, false, ok
	case pyjson.String:
	default:
		return "", false, false
	}
	text = string(v.Text())
	if m := naive.FindStringSubmatch(text); m != nil && zone != nil {
		at, err := time.ParseInLocation("2006-01-02 15:04:05", m[1]+" "+m[2], zone)
		if err != nil {
			return "", false, false
		}
		text, zoned = m[1]+"T"+m[2]+m[3]+at.Format("Z07:00"), true
	} else if m := spaced.FindStringSubmatch(text); m != nil {
		text = m[1] + "T" + m[2]
	}
	_, ok = moment.Parse([]byte(text))
	return text, zoned, ok && len(text) <= fields.MaxTimestampBytes
}

// unixTime converts a number of seconds since 1970 to RFC 3339 format, rounding it to microseconds.
func unixTime(v pyjson.Value) (string, bool) {
	seconds, ok := v.Float()
	if !ok || seconds < 0 || seconds >= 253402300800 { // outside the years 1970 to 9999
		return "", false
	}
	whole := math.Floor(seconds)
	at := time.Unix(int64(whole), int64(math.Round((seconds-whole)*1e6))*1000).UTC()
	return at.Format("2006-01-02T15:04:05.999999Z"), true
}

// ParseZone parses a time zone: UTC, an offset like +01:00, or a name like Europe/Berlin.
func ParseZone(name string) (*time.Location, error) {
	if at, err := time.Parse("-07:00", name); err == nil {
		_, offset := at.Zone()
		return time.FixedZone(name, offset), nil
	}
	if name == "" || strings.EqualFold(name, "local") {
		return nil, errZone(name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, errZone(name)
	}
	return zone, nil
}

type errZone string

func (e errZone) Error() string {
	return strconv.Quote(string(e)) + " is not a time zone; use UTC, an offset such as +01:00, or a name such as Europe/Berlin"
}
