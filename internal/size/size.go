// Package size parses and formats sizes such as 64MiB.
package size

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a non-negative number of bytes. Its text form is a decimal number, optionally followed
// by KiB, MiB, GiB, or TiB.
type Bytes int64

// binaryUnits lists the units, largest first.
var binaryUnits = [...]struct {
	name  string
	bytes Bytes
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// MarshalText implements encoding.TextMarshaler. It uses the largest unit that divides the size.
func (b Bytes) MarshalText() ([]byte, error) {
	for _, unit := range binaryUnits {
		if b >= unit.bytes && b%unit.bytes == 0 {
			return fmt.Appendf(nil, "%d%s", b/unit.bytes, unit.name), nil
		}
	}
	return strconv.AppendInt(nil, int64(b), 10), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	digits, factor := string(text), Bytes(1)
	for _, unit := range binaryUnits {
		if number, found := strings.CutSuffix(digits, unit.name); found {
			digits, factor = strings.TrimSpace(number), unit.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/factor) {
		return fmt.Errorf("%q is not a valid size; use a value such as 67108864 or 64MiB", text)
	}
	*b = Bytes(n) * factor
	return nil
}
