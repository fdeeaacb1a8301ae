package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// FargateProfile selects the pods of a cluster that run on Fargate, as its owner wants it. It never changes but for its
// tags. Its status is not stored: it follows from this row and the [FargateProfileState] that was observed; see
// [FargateProfileStatus].
//
// Writer: internal/aws/eks/fargate. Only the row's deletion is the Fargate controller's, once everything that belongs
// to a profile with Deleting set is gone. A cluster that has one cannot be deleted.
type FargateProfile struct {
	Account   string
	Region    string
	Cluster   string // its name
	ClusterID string
	Name      string
	ID        string // a UUID, the end of its ARN
	CreatedAt time.Time

	PodExecutionRoleARN string
	SubnetIDs           []string // private ones of the cluster's VPC; in the order of the request
	Selectors           []FargateSelector
	Tags                map[string]string

	ClientRequestToken string
	RequestHash        string
	// Deleting is set by DeleteFargateProfile and never unset.
	Deleting bool
}

// FargateSelector matches pods of a namespace that have all the labels. "*" stands for any characters, "?" for one, in
// the namespace, keys and values.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html
type FargateSelector struct {
	Namespace string
	Labels    map[string]string `json:",omitempty"`
}

// FargateProfileKey returns the key of a Fargate profile.
func FargateProfileKey(account, region, cluster, name string) string {
	return store.Key(account, region, cluster, name)
}

// Key returns the profile's key.
func (p FargateProfile) Key() string {
	return FargateProfileKey(p.Account, p.Region, p.Cluster, p.Name)
}

// ARN returns the profile's Amazon Resource Name.
func (p FargateProfile) ARN() string {
	return "arn:aws:eks:" + p.Region + ":" + p.Account + ":fargateprofile/" + p.Cluster + "/" + p.Name + "/" + p.ID
}

// FargateProfiles returns the table of Fargate profiles, by FargateProfileKey.
func FargateProfiles(s *store.Store) store.Table[FargateProfile] {
	return store.NewTable[FargateProfile](s, "fargateprofiles")
}

// FargateProfileState is the observed state of a Fargate profile, and the controller's progress with it.
//
// Writer: internal/controller/fargate.
type FargateProfileState struct {
	ProfileID string
	// Created reports that the profile has been ACTIVE; Failed that its creation failed, DeleteFailed that its deletion
	// did. Issues say why.
	Created      bool `json:",omitempty"`
	Failed       bool `json:",omitempty"`
	DeleteFailed bool `json:",omitempty"`
	// Mapped records how its role was let in: "aws-auth", "access-entry", both, or not yet.
	Mapped []string `json:",omitempty"`
	// EntryID is the ID of the access entry that lets the role in: EKS takes it away with the last profile of the role,
	// and no other that somebody made since.
	EntryID string `json:",omitempty"`
	// Webhook identifies the webhook configuration that was last put into the cluster for it. As on AWS, what users do
	// to it later is left alone.
	Webhook string `json:",omitempty"`
	// RefusedAt and FailedAt are since when its cluster has refused to have its role removed from aws-auth, and has failed
	// to do so, and TriedAt is when that was tried last.
	RefusedAt time.Time                      `json:",omitzero"`
	FailedAt  time.Time                      `json:",omitzero"`
	TriedAt   time.Time                      `json:",omitzero"`
	Issues    []ekstypes.FargateProfileIssue `json:",omitempty"`
}

// FargateProfileStates returns the table of observed Fargate profiles, by FargateProfileKey.
func FargateProfileStates(s *store.Store) store.Table[FargateProfileState] {
	return store.NewTable[FargateProfileState](s, "fargateprofilestates")
}

// FargateProfileStatus returns the status of a profile. A state of an earlier profile of that name says nothing.
func FargateProfileStatus(p FargateProfile, s FargateProfileState) ekstypes.FargateProfileStatus {
	if s.ProfileID != p.ID {
		s = FargateProfileState{}
	}
	switch {
	case p.Deleting && s.DeleteFailed:
		return ekstypes.FargateProfileStatusDeleteFailed
	case p.Deleting:
		return ekstypes.FargateProfileStatusDeleting
	case s.Failed:
		return ekstypes.FargateProfileStatusCreateFailed
	case s.Created:
		return ekstypes.FargateProfileStatusActive
	}
	return ekstypes.FargateProfileStatusCreating
}
