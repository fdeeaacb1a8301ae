package record

import (
	"fmt"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// LaunchTemplate is a launch template; its versions are rows of their own.
//
// Writer: internal/aws/ec2.
type LaunchTemplate struct {
	EC2Resource           // ID is "lt-…"
	Name           string //
	CreatedBy      string // ARN
	DefaultVersion int64
	// LatestVersion is the number that was given last; numbers of deleted versions do not come again.
	LatestVersion int64
}

// LaunchTemplates returns the table of launch templates, by EC2Key.
func LaunchTemplates(s *store.Store) store.Table[LaunchTemplate] {
	return store.NewTable[LaunchTemplate](s, "launchtemplates")
}

// LaunchTemplateVersion is one version of a launch template.
//
// Writer: internal/aws/ec2, in the transaction that writes the template.
type LaunchTemplateVersion struct {
	TemplateID  string
	Number      int64 // from 1
	Description string
	CreatedBy   string // ARN
	CreatedAt   time.Time
	// Data is the data of the request; the members of the response are the same.
	Data ec2types.RequestLaunchTemplateData
	// ClientToken is of the request that created it; RequestHash tells whether another with the token is the same.
	ClientToken string `json:",omitempty"`
	RequestHash string `json:",omitempty"`
}

// LaunchTemplateVersionKey returns the key of a version; keys are in the order of the numbers.
func LaunchTemplateVersionKey(account, region, id string, number int64) string {
	return store.Key(account, region, id, fmt.Sprintf("%010d", number))
}

// LaunchTemplateVersions returns the table of versions, by LaunchTemplateVersionKey.
func LaunchTemplateVersions(s *store.Store) store.Table[LaunchTemplateVersion] {
	return store.NewTable[LaunchTemplateVersion](s, "launchtemplateversions")
}

// LaunchTemplateName claims a launch template's name in its account and region.
//
// Writer: internal/aws/ec2.
type LaunchTemplateName struct{ TemplateID string }

// LaunchTemplateNames returns the table of launch template names, by Key(account, region, name).
func LaunchTemplateNames(s *store.Store) store.Table[LaunchTemplateName] {
	return store.NewTable[LaunchTemplateName](s, "launchtemplatenames")
}
