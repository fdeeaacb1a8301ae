package boot

// Lease is the content of DHCPFile, the lease of eth0: what EC2's DHCP server would have answered. The host writes it
// before every boot; without it init takes the VPC's second address for its name server.
type Lease struct {
	Nameservers []string `json:"nameservers,omitempty"` // addresses; AmazonProvidedDNS is given as the VPC's .2
	DomainName  string   `json:"domainName,omitempty"`  // "eu-west-1.compute.internal"
	NTPServers  []string `json:"ntpServers,omitempty"`
}
