package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, 0 or more. Its text is a decimal number, with or without the suffix
// KiB, MiB, GiB or TiB.
type Size int64

// binaryUnits lists the units, the largest first.
var binaryUnits = [...]struct {
	name  string
	bytes Size
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// MarshalText uses the largest unit that gives a whole number.
func (b Size) MarshalText() ([]byte, error) {
	for _, unit := range binaryUnits {
		if b >= unit.bytes && b%unit.bytes == 0 {
			return fmt.Appendf(nil, "%d%s", b/unit.bytes, unit.name), nil
		}
	}
	return strconv.AppendInt(nil, int64(b), 10), nil
}

// UnmarshalText reads what MarshalText writes.
func (b *Size) UnmarshalText(text []byte) error {
	digits, factor := string(text), Size(1)
	for _, unit := range binaryUnits {
		if number, found := strings.CutSuffix(digits, unit.name); found {
			digits, factor = strings.TrimSpace(number), unit.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/factor) {
		return fmt.Errorf("%q is not a size; write it like 67108864 or 64MiB", text)
	}
	*b = Size(n) * factor
	return nil
}
