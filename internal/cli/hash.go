package cli

import "regexp"

var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// IsHashPrefix reports whether text is a hash in lowercase hexadecimal or a prefix of one with at least
// eight digits. The server can look up hashes by such prefixes.
func IsHashPrefix(text string) bool { return hashPrefix.MatchString(text) }
