package record

import "github.com/coracle-eks/coracle/internal/store"

// DHCPOptions is a set of DHCP options. Which VPCs use it stands in their rows.
//
// Writer: internal/aws/ec2.
type DHCPOptions struct {
	EC2Resource
	// Options are the values by option name: "domain-name-servers": {"AmazonProvidedDNS"}.
	Options map[string][]string
}

// DHCPOptionsTable returns the table of DHCP options, by EC2Key.
func DHCPOptionsTable(s *store.Store) store.Table[DHCPOptions] {
	return store.NewTable[DHCPOptions](s, "dhcpoptions")
}
