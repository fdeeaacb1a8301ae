package resource

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// PrefixList is a prefix list that AWS manages: the addresses of a service which has a gateway endpoint.
type PrefixList struct {
	ID, Name, CIDR string
}

// PrefixListNaming has the names of prefix lists.
var PrefixListNaming = Naming{
	Resource: types.ResourceTypePrefixList, Prefix: "pl-", Noun: "prefix list ID", Parameter: "prefixListId",
	NotFound: "InvalidPrefixListID.NotFound", Malformed: "InvalidPrefixListId.Malformed",
}

// PrefixLists returns the AWS-managed prefix lists of the scope's region, by ID. Their blocks lie in the range for
// benchmarks, beside our public addresses: the real ones are elsewhere in every region and change.
func (sc Scope) PrefixLists() []PrefixList {
	var lists []PrefixList
	for service, cidr := range map[string]string{"s3": "198.19.1.0/24", "dynamodb": "198.19.2.0/24"} {
		name := "com.amazonaws." + sc.Region + "." + service
		digest := fnv.New32a()
		digest.Write([]byte(name))
		lists = append(lists, PrefixList{fmt.Sprintf("pl-%08x", digest.Sum32()), name, cidr})
	}
	slices.SortFunc(lists, func(a, b PrefixList) int { return strings.Compare(a.ID, b.ID) })
	return lists
}

// PrefixList returns the list with that id.
func (sc Scope) PrefixList(id string) (PrefixList, error) {
	if err := PrefixListNaming.Validate(id); err != nil {
		return PrefixList{}, err
	}
	lists := sc.PrefixLists()
	i := slices.IndexFunc(lists, func(l PrefixList) bool { return l.ID == id })
	if i < 0 {
		return PrefixList{}, PrefixListNaming.Missing(id)
	}
	return lists[i], nil
}
