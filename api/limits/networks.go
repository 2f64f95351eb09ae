package limits

import (
	"fmt"
	"net"
	"strings"
)

// Networks is a list of IP networks. Its text form is in CIDR notation, separated by commas.
type Networks []*net.IPNet

// UnmarshalText parses the format written by MarshalText. It also accepts a single address, which
// it treats as a network that contains only that address.
func (n *Networks) UnmarshalText(text []byte) error {
	*n = nil
	if len(text) == 0 {
		return nil
	}
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		if ip := net.ParseIP(name); ip != nil && ip.To4() != nil {
			name += "/32"
		} else if ip != nil {
			name += "/128"
		}
		_, network, err := net.ParseCIDR(name)
		if err != nil {
			return fmt.Errorf("%q is not a network; use CIDR notation such as 10.0.0.0/8, and separate networks with commas", name)
		}
		*n = append(*n, network)
	}
	return nil
}

// MarshalText returns the networks, separated by commas.
func (n Networks) MarshalText() ([]byte, error) {
	names := make([]string, len(n))
	for i, network := range n {
		names[i] = network.String()
	}
	return []byte(strings.Join(names, ",")), nil
}
