package elb

import "github.com/coracle-eks/coracle/internal/record"

// hostedZones are the IDs of the hosted zones of load balancers: of Classic and Application ones, and of Network ones.
// https://docs.aws.amazon.com/general/latest/gr/elb.html
var hostedZones = map[string][2]string{
	"af-south-1":     {"Z268VQBMOI5EKX", "Z203XCE67M25HM"},
	"ap-east-1":      {"Z3DQVH9N71FHZ0", "Z12Y7K3UBGUAD1"},
	"ap-east-2":      {"Z02789141MW7T1WBU19PO", "Z09176273OC2HWIAUNYW"},
	"ap-northeast-1": {"Z14GRHDCWA56QT", "Z31USIVHYNEOWT"},
	"ap-northeast-2": {"ZWKZPGTI48KDX", "ZIBE1TIR4HY56"},
	"ap-northeast-3": {"Z5LXEXXYW11ES", "Z1GWIQ4HH19I5X"},
	"ap-south-1":     {"ZP97RAFLXTNZK", "ZVDDRBQ08TROA"},
	"ap-south-2":     {"Z0173938T07WNTVAEPZN", "Z0711778386UTO08407HT"},
	"ap-southeast-1": {"Z1LMS91P8CMLE5", "ZKVM4W9LS7TM"},
	"ap-southeast-2": {"Z1GM3OXH4ZPM65", "ZCT6FZBF4DROD"},
	"ap-southeast-3": {"Z08888821HLRG5A9ZRTER", "Z01971771FYVNCOVWJU1G"},
	"ap-southeast-4": {"Z09517862IB2WZLPXG76F", "Z01156963G8MIIL7X90IV"},
	"ap-southeast-5": {"Z06010284QMVVW7WO5J", "Z026317210H9ACVTRO6FB"},
	"ap-southeast-6": {"Z023301818UFJ50CIO0MV", "Z01392953RKV2Q3RBP0KU"},
	"ap-southeast-7": {"Z0390008CMBRTHFGWBCB", "Z054363131YWATEMWRG5L"},
	"ca-central-1":   {"ZQSVJUPU6J1EY", "Z2EPGBW3API2WT"},
	"ca-west-1":      {"Z06473681N0SF6OS049SD", "Z02754302KBB00W2LKWZ9"},
	"eu-central-1":   {"Z215JYRZR1TBD5", "Z3F0SRJ5LGBH90"},
	"eu-central-2":   {"Z06391101F2ZOEP8P5EB3", "Z02239872DOALSIDCX66S"},
	"eu-north-1":     {"Z23TAZ6LKFMNIO", "Z1UDT6IFJ4EJM"},
	"eu-south-1":     {"Z3ULH7SSC9OV64", "Z23146JA1KNAFP"},
	"eu-south-2":     {"Z0956581394HF5D5LXGAP", "Z1011216NVTVYADP1SSV"},
	"eu-west-1":      {"Z32O12XQLNTSW2", "Z2IFOLAFXWLO4F"},
	"eu-west-2":      {"ZHURV8PSTC4K8", "ZD4D7Y8KGAS4G"},
	"eu-west-3":      {"Z3Q77PNBQS71R4", "Z1CMS0P5QUZ6D5"},
	"il-central-1":   {"Z09170902867EHPV2DABU", "Z0313266YDI6ZRHTGQY4"},
	"me-central-1":   {"Z08230872XQRWHG2XF6I", "Z00282643NTTLPANJJG2P"},
	"me-south-1":     {"ZS929ML54UICD", "Z3QSRYVP46NYYV"},
	"mx-central-1":   {"Z023552324OKD1BB28BH5", "Z02031231H3ID6HYJ9A7U"},
	"sa-east-1":      {"Z2P70J7HTTTPLU", "ZTK26PT1VY4CU"},
	"us-east-1":      {"Z35SXDOTRQ7X7K", "Z26RNL4JYFTOTI"},
	"us-east-2":      {"Z3AADJGX6KTTL2", "ZLMOA37VPKANP"},
	"us-west-1":      {"Z368ELLRRE2KJ0", "Z24FKFUX50B4VW"},
	"us-west-2":      {"Z1H1FL5HABSF5", "Z18D5FSROUN65G"},
}

// hostedZone returns the ID of the hosted zone of load balancers in a region; nil where it is not known here.
func hostedZone(region, kind string) *string {
	zones, ok := hostedZones[region]
	switch {
	case !ok:
		return nil
	case kind != record.NetworkLoadBalancer:
		return &zones[0]
	}
	return &zones[1]
}
