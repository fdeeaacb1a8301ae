package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Addon is an EKS add-on as its owner wants it. Its status is not stored: it follows from this row, the [AddonState]
// that was observed, and the update named by LastUpdateID.
//
// Writer: internal/aws/eks. Only the row's deletion is the add-on controller's, once everything that belongs to an
// add-on with Deleting set is gone, or given up with Preserve.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
type Addon struct {
	Account   string
	Region    string
	Cluster   string // its name
	ClusterID string
	Name      string
	ID        string // a UUID, the end of its ARN
	CreatedAt time.Time
	// ModifiedAt is the time of the owner's last change.
	ModifiedAt time.Time

	Wanted AddonConfig
	// Publisher, Owner and Marketplace are those of the catalog when the add-on was created.
	Publisher, Owner string
	Marketplace      *ekstypes.MarketplaceInformation `json:",omitempty"`
	Tags             map[string]string

	// Change counts the requests that spoke of Wanted, from 1: CreateAddon (again, after CREATE_FAILED) and
	// UpdateAddon.
	Change int
	// LastUpdateID is the newest Update of the add-on, the only one that may be in progress; empty after CreateAddon.
	LastUpdateID       string
	ClientRequestToken string
	RequestHash        string
	// Deleting is set by DeleteAddon and never unset. Preserve keeps the objects in the cluster.
	Deleting, Preserve bool
}

// AddonConfig is the part of an add-on that an update changes.
type AddonConfig struct {
	Version string // "v1.23.2-eksbuild.1"
	// Namespace is the namespace of the namespaced objects: the user's, or the catalog's.
	Namespace             string
	ServiceAccountRoleARN string `json:",omitempty"`
	// Configuration is configurationValues as the user wrote it, JSON or YAML.
	Configuration string `json:",omitempty"`
	// Conflicts is resolveConflicts of the request: NONE unless it said otherwise.
	Conflicts ekstypes.ResolveConflicts
	// PodIdentityAssociations are the IDs of the [PodIdentityAssociation] rows that the add-on owns.
	PodIdentityAssociations []string `json:",omitempty"`
}

// Now returns what the add-on is to be like: Wanted, unless last, the update named by LastUpdateID, has failed or was
// cancelled.
func (a Addon) Now(last Update) AddonConfig {
	if last.ID == a.LastUpdateID && last.PreviousAddon != nil &&
		(last.Status == ekstypes.UpdateStatusFailed || last.Status == ekstypes.UpdateStatusCancelled) {
		return *last.PreviousAddon
	}
	return a.Wanted
}

// AddonKey returns the key of an add-on.
func AddonKey(account, region, cluster, name string) string {
	return store.Key(account, region, cluster, name)
}

// Key returns the add-on's key.
func (a Addon) Key() string { return AddonKey(a.Account, a.Region, a.Cluster, a.Name) }

// ARN returns the add-on's Amazon Resource Name.
func (a Addon) ARN() string {
	return "arn:aws:eks:" + a.Region + ":" + a.Account + ":addon/" + a.Cluster + "/" + a.Name + "/" + a.ID
}

// Addons returns the table of add-ons, by AddonKey.
func Addons(s *store.Store) store.Table[Addon] { return store.NewTable[Addon](s, "addons") }

// AddonState is the observed state of an add-on, and the controller's progress with it.
//
// Writer: internal/controller/addon.
type AddonState struct {
	AddonID string
	// Change is the newest Change that the controller is done with: carried out, or given up.
	Change int
	// Applied is the configuration that all objects were last rendered from; zero before the first time.
	Applied AddonConfig
	// Applying is set, before the first object is changed, to what the objects are being made of, and cleared when all
	// are: in between they may be half of Applied and half of Applying.
	Applying *AddonConfig `json:",omitempty"`
	// AppliedChange is the Change that Applied was applied for.
	AppliedChange int
	// Created is set once the add-on has come up; Failed while its creation has failed; DeleteFailed while its deletion
	// has.
	Created, Failed, DeleteFailed bool
	// Issues are the current problems.
	Issues []ekstypes.AddonIssue `json:",omitempty"`
	// Objects are those that the add-on has in the cluster, or is about to.
	Objects []AddonObject `json:",omitempty"`
	// ModifiedAt is the time of the last change of one of the above.
	ModifiedAt time.Time
}

// AddonObject is an object that an add-on applies.
type AddonObject struct {
	APIVersion, Kind, Namespace, Name string
	// Kept are the paths of fields that others own and that an update with PRESERVE left to them, in the form of
	// conflicts: `.spec.template.spec.containers[name="aws-node"].image`.
	Kept []string `json:",omitempty"`
	// Fingerprints of what the catalog makes of it, of what was sent of that, of the fields that EKS owned afterwards,
	// and of those that others did: after a change of one the object has to be reconciled. Others is empty where
	// nothing is left to others.
	Made, Sent, Owned, Others string `json:",omitempty"`
}

// AddonStates returns the table of what was observed of add-ons, by AddonKey.
func AddonStates(s *store.Store) store.Table[AddonState] {
	return store.NewTable[AddonState](s, "addon-states")
}

// PodIdentityAssociation assigns an IAM role to the pods of a service account.
//
// Writer: internal/aws/eks. The controller of add-ons deletes those of an add-on with it.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html
type PodIdentityAssociation struct {
	Account        string
	Region         string
	Cluster        string // its name
	ClusterID      string
	ID             string // "a-" and 17 letters and digits
	Namespace      string
	ServiceAccount string
	RoleARN        string
	// TargetRoleARN is a role that RoleARN assumes, with ExternalID, and whose credentials pods get; empty without one.
	TargetRoleARN, ExternalID string `json:",omitempty"`
	// DisableSessionTags leaves out the tags of sessions; SessionPolicy restricts them further.
	DisableSessionTags bool   `json:",omitempty"`
	SessionPolicy      string `json:",omitempty"`
	// ClientRequestToken and RequestHash are of the request that created it.
	ClientRequestToken string `json:",omitempty"`
	RequestHash        string `json:",omitempty"`
	// AddonID is that of the add-on that owns it, OwnerARN its ARN; empty when nobody does.
	AddonID, OwnerARN string            `json:",omitempty"`
	Tags              map[string]string `json:",omitempty"`
	CreatedAt         time.Time
	ModifiedAt        time.Time
}

// PodIdentityAssociationKey returns the key of an association.
func PodIdentityAssociationKey(account, region, cluster, id string) string {
	return store.Key(account, region, cluster, id)
}

// Key returns the association's key.
func (p PodIdentityAssociation) Key() string {
	return PodIdentityAssociationKey(p.Account, p.Region, p.Cluster, p.ID)
}

// ARN returns the association's Amazon Resource Name.
func (p PodIdentityAssociation) ARN() string {
	return "arn:aws:eks:" + p.Region + ":" + p.Account + ":podidentityassociation/" + p.Cluster + "/" + p.ID
}

// PodIdentityAssociations returns the table of associations, by PodIdentityAssociationKey.
func PodIdentityAssociations(s *store.Store) store.Table[PodIdentityAssociation] {
	return store.NewTable[PodIdentityAssociation](s, "pod-identity-associations")
}
