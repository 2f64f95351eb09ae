package limits

import (
	"fmt"
	"net"
	"strings"
)

// Networks are some networks in CIDR notation, with commas between them.
type Networks []*net.IPNet

// UnmarshalText reads what MarshalText writes; a lone address is a network too.
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
			return fmt.Errorf("%q is no network; write it like 10.0.0.0/8, several with commas between them", name)
		}
		*n = append(*n, network)
	}
	return nil
}

// MarshalText writes the networks with commas between them.
func (n Networks) MarshalText() ([]byte, error) {
	names := make([]string, len(n))
	for i, network := range n {
		names[i] = network.String()
	}
	return []byte(strings.Join(names, ",")), nil
}
