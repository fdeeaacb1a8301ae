package resource

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/vpcrule"
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

// PrefixLists returns the AWS-managed prefix lists of the scope's region, by ID.
func (sc Scope) PrefixLists() []PrefixList {
	var lists []PrefixList
	blocks := vpcrule.PrefixLists(sc.Region)
	for _, service := range []string{"s3", "dynamodb"} {
		name := vpcrule.PrefixListName(sc.Region, service)
		id := vpcrule.PrefixListID(name)
		lists = append(lists, PrefixList{id, name, blocks[id][0].String()})
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
