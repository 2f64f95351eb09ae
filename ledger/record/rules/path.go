package rules

import (
	"bytes"
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (spec: Path ids)
	"encoding/hex"
	"slices"

	"colophon/ledger/record/pyjson"
)

// FingerprintVersion is the version of the fingerprint rules that this package implements (spec:
// Path fingerprints). Fingerprints computed under other versions are only recorded as claims.
const FingerprintVersion = "adr-004"

// These are the lengths of fingerprints and path IDs in hexadecimal digits. A path ID is lengthened
// after a collision (spec: Path ids).
const (
	FingerprintDigits = 8  // length of a fingerprint; that of another hash_version may be longer
	PathIDDigits      = 8  // length of most path IDs
	LongPathIDDigits  = 16 // length of a path ID after a collision

	maxFingerprintDigits = 64
)

// IsFingerprint reports whether text can be a fingerprint under some version of the rules.
func IsFingerprint(text []byte) bool {
	return len(text) >= FingerprintDigits && len(text) <= maxFingerprintDigits && IsHexDigits(text, len(text))
}

// IsFingerprintForVersion reports whether text can be a fingerprint under the given version of the rules.
func IsFingerprintForVersion(version string, text []byte) bool {
	if version == FingerprintVersion {
		return IsHexDigits(text, FingerprintDigits)
	}
	return IsFingerprint(text)
}

// IsPathID reports whether text has the form of a path_id that clients may claim.
func IsPathID(text []byte) bool {
	return IsHexDigits(text, PathIDDigits) || IsHexDigits(text, LongPathIDDigits)
}

// JoinRoute joins a route's passage names with arrows. The result identifies the route.
func JoinRoute(passages [][]byte) []byte { return bytes.Join(passages, []byte(" → ")) }

// RouteDigest returns the MD5 of a route in hexadecimal. The route's path_id is a prefix of the
// result (spec: Path ids).
func RouteDigest(passages [][]byte) []byte {
	sum := md5.Sum(JoinRoute(passages)) // #nosec G401 -- by definition (spec: Path ids)
	return hex.AppendEncode(nil, sum[:])
}

// ContentFingerprint returns the fingerprint of a path's content without its links. It uses scratch
// as a buffer and returns it as used, so that the next call can reuse it.
func ContentFingerprint(scratch, content []byte) (fingerprint, used []byte) {
	return fingerprintOf(AppendWithoutLinks(slices.Grow(scratch[:0], len(content)), content))
}

// RawContentFingerprint returns the fingerprint of a path's content, including its links. It uses
// scratch as a buffer and returns it as used, so that the next call can reuse it.
func RawContentFingerprint(scratch, content []byte) (fingerprint, used []byte) {
	return fingerprintOf(append(scratch[:0], content...))
}

// fingerprintOf collapses the whitespace in text (AppendCollapsedText) and returns the first
// eight hexadecimal digits of the MD5 of the result. It overwrites text and returns its memory as
// used.
func fingerprintOf(text []byte) (fingerprint, used []byte) {
	sum := md5.Sum(AppendCollapsedText(text[:0], text)) // #nosec G401 -- by definition (spec: Path ids)
	return hex.AppendEncode(nil, sum[:FingerprintDigits/2]), text
}

// AppendCollapsedText applies rule W to text and appends the result (spec: Content fingerprints):
// each run of spaces (U+0020) becomes one space, each run of two or more line feeds becomes two,
// and whitespace at both ends is removed. dst may be text[:0].
func AppendCollapsedText(dst, text []byte) []byte {
	start := len(dst)
	dst = appendShortened(dst, text, " ")
	dst = appendShortened(dst[:start], dst[start:], "\n\n")
	return append(dst[:start], pyjson.Strip(dst[start:])...)
}

// AppendWithoutLinks applies rule L to text and appends the result (spec: Content fingerprints): it
// deletes wiki links and then Markdown links. A link cannot contain a line feed.
func AppendWithoutLinks(dst, text []byte) []byte {
	for more := true; more; {
		var line []byte
		line, text, more = bytes.Cut(text, []byte("\n"))
		start := len(dst)
		dst = appendWithout(dst, line, "[[", "]]", "")
		dst = appendWithout(dst[:start], dst[start:], "[", "](", ")")
		if more {
			dst = append(dst, '\n')
		}
	}
	return dst
}

// appendWithout appends a line without its links. From left to right, it deletes each shortest
// piece that begins with begin, contains middle, and ends with end (or with middle, if end is "").
// It stops when one of these delimiters is missing, because no later piece can match. The function
// therefore takes linear time. dst may be line[:0].
func appendWithout(dst, line []byte, begin, middle, end string) []byte {
	for {
		start := bytes.Index(line, []byte(begin))
		if start < 0 {
			return append(dst, line...)
		}
		stop := start + len(begin)
		for _, part := range [...]string{middle, end} {
			i := bytes.Index(line[stop:], []byte(part))
			if i < 0 {
				return append(dst, line...)
			}
			stop += i + len(part)
		}
		dst = append(dst, line[:start]...)
		line = line[stop:]
	}
}
