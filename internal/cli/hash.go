package cli

import "regexp"

var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// IsHashPrefix reports whether text is a hash, or a prefix of one that is long enough for the server to
// look up.
func IsHashPrefix(text string) bool { return hashPrefix.MatchString(text) }
