package importrules

// Unmetered are the places that read rows which no account is charged for, each with the reason why these stay few and
// small. Everybody else is charged for what they read, before it is decoded (store.Metered): a list that is only
// counted is a Count, which decodes nothing.
var Unmetered = map[string]string{
	"internal/store/table.go writeRow": "the row that the caller has just written, and paid for",
	"internal/aws/ec2/vpc/vpc.go newIPv6Block": "VPCs of all accounts, as many as their quota, each of a few blocks and " +
		"IDs: below 4 KiB, so that they are decoded once for all",
}
