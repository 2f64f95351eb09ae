package cli

import "regexp"

var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// IsHashPrefix reports whether text is a hash in hexadecimal, or the first eight or more digits of one,
// which are enough for the server to look it up.
func IsHashPrefix(text string) bool { return hashPrefix.MatchString(text) }
