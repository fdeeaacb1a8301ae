package boot

// DHCPFile is the lease of eth0, in Dir: what EC2's DHCP server would have answered. The host writes it before init starts
// and again when the VPC's DHCP options change; without it init takes the VPC's second address for its name server.
const DHCPFile = "dhcp.json"

// Lease is the content of DHCPFile: the VPC's DHCP option set.
type Lease struct {
	Nameservers []string `json:"nameservers,omitempty"` // addresses; AmazonProvidedDNS is given as the VPC's .2
	DomainName  string   `json:"domainName,omitempty"`  // "eu-west-1.compute.internal"
	NTPServers  []string `json:"ntpServers,omitempty"`
}
