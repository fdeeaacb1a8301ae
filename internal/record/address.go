package record

import "github.com/coracle-eks/coracle/internal/store"

// Address is an elastic IP address.
//
// Writer: internal/aws/ec2.
type Address struct {
	EC2Resource // ID is the allocation ID, "eipalloc-…"
	PublicIP    string
	PTRRecord   string `json:",omitempty"`
	// The association, if there is one. The instance follows from the network interface.
	AssociationID      string `json:",omitempty"` // "eipassoc-…"
	NetworkInterfaceID string `json:",omitempty"`
	PrivateIPAddress   string `json:",omitempty"`
}

// Addresses returns the table of elastic IP addresses, by EC2Key of the allocation.
func Addresses(s *store.Store) store.Table[Address] { return store.NewTable[Address](s, "addresses") }

// PublicIP claims a public IPv4 address for one elastic IP address or one network interface of all accounts and
// regions.
//
// Writer: internal/aws/ec2.
type PublicIP struct {
	Account string
	Region  string
	OwnerID string // what the address belongs to: an allocation ID, or the network interface that it is lent to
}

// PublicIPs returns the table of public addresses in use, by Key(address).
func PublicIPs(s *store.Store) store.Table[PublicIP] {
	return store.NewTable[PublicIP](s, "publicips")
}

// PublicIPsByAccount finds public addresses by the account that has them, in all regions.
func PublicIPsByAccount(s *store.Store) store.Index[PublicIP] {
	return store.NewIndex(PublicIPs(s), "account", func(p PublicIP) string { return p.Account })
}
