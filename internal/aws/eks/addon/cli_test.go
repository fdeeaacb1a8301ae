package addon_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The unmodified aws CLI takes an add-on from a conflict to its deletion.
func TestAddonCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("ironman-2022")
	cli := awsclient.NewCLI(t, w.URL, ekstest.Region, "eks")
	newer, older := w.versions("vpc-cni")[0], w.versions("vpc-cni")[1]
	// of is a command about the add-on.
	of := func(command string, more ...string) []string {
		return append([]string{command, "--cluster-name", "ironman-2022", "--addon-name", "vpc-cni"}, more...)
	}

	var versions struct {
		Addons []struct {
			AddonName     string
			AddonVersions []struct {
				AddonVersion    string
				Compatibilities []struct {
					ClusterVersion   string
					PlatformVersions []string
				}
			}
		}
	}
	cli.Run(&versions, "describe-addon-versions", "--kubernetes-version", "1.35", "--addon-name", "vpc-cni")
	if len(versions.Addons) != 1 || versions.Addons[0].AddonVersions[0].AddonVersion != newer ||
		!slices.Equal(versions.Addons[0].AddonVersions[0].Compatibilities[0].PlatformVersions, []string{"*"}) {
		t.Errorf("versions %+v", versions)
	}
	var configuration struct{ ConfigurationSchema string }
	cli.Run(&configuration, "describe-addon-configuration", "--addon-name", "vpc-cni", "--addon-version", newer)
	if !strings.Contains(configuration.ConfigurationSchema, `"env"`) {
		t.Errorf("schema %s", configuration.ConfigurationSchema)
	}

	type addon struct {
		Addon struct {
			Status, AddonVersion, ConfigurationValues string
			Health                                    struct {
				Issues []struct {
					Code, Message string
					ResourceIDs   []string
				}
			}
			NamespaceConfig struct{ Namespace string }
			Tags            map[string]string
		}
	}
	var got addon
	cli.Run(&got, of("create-addon", "--addon-version", older, "--service-account-role-arn", ekstest.IRSARole, "--tags",
		"team=a")...)
	if got.Addon.Status != "CREATING" || got.Addon.AddonVersion != older || got.Addon.Tags["team"] != "a" ||
		got.Addon.NamespaceConfig.Namespace != "kube-system" {
		t.Errorf("created %+v", got)
	}
	w.keepAddon("ironman-2022", "vpc-cni", failed)
	cli.Run(&got, of("describe-addon")...)
	if issues := got.Addon.Health.Issues; got.Addon.Status != "CREATE_FAILED" || len(issues) != 1 ||
		issues[0].Code != "ConfigurationConflict" {
		t.Errorf("described %+v", got)
	}
	if out, err := cli.Try(slices.Concat([]string{"wait"}, of("addon-active"))...); err == nil {
		t.Errorf("waited for what failed: %s", out)
	}
	cli.Run(nil, of("create-addon", "--addon-version", older, "--resolve-conflicts", "OVERWRITE")...)
	w.keepAddon("ironman-2022", "vpc-cni")
	cli.Run(nil, slices.Concat([]string{"wait"}, of("addon-active"))...)

	values := filepath.Join(cli.Home, "values.yaml")
	if err := os.WriteFile(values, []byte("env:\n  WARM_ENI_TARGET: \"2\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var update struct {
		Update struct {
			ID, Type, Status string
			Params           []struct{ Type, Value string }
		}
	}
	cli.Run(&update, of("update-addon", "--addon-version", newer, "--configuration-values", "file://"+values,
		"--resolve-conflicts", "PRESERVE")...)
	if update.Update.Type != "AddonUpdate" || update.Update.Status != "InProgress" || len(update.Update.Params) != 3 {
		t.Errorf("update %+v", update)
	}
	cli.Refused("ResourceInUseException", ": Addon vpc-cni cannot be updated as it is currently in UPDATING state",
		of("update-addon")...)
	w.endAddonUpdate("ironman-2022", "vpc-cni", types.UpdateStatusSuccessful)
	w.keepAddon("ironman-2022", "vpc-cni")
	cli.Run(&update, "describe-update", "--name", "ironman-2022", "--addon-name", "vpc-cni", "--update-id",
		update.Update.ID)
	if update.Update.Status != "Successful" {
		t.Errorf("update %+v", update)
	}
	cli.Refused("InvalidParameterException",
		"Json schema validation failed with error: [$.envv: is not defined in the schema",
		of("update-addon", "--configuration-values", `{"envv":{}}`)...)

	var list struct{ Addons []string }
	if cli.Run(&list, "list-addons", "--cluster-name", "ironman-2022"); !slices.Equal(list.Addons,
		[]string{"vpc-cni"}) {
		t.Errorf("add-ons %v", list.Addons)
	}
	cli.Run(&got, of("delete-addon", "--preserve")...)
	if got.Addon.Status != "DELETING" {
		t.Errorf("deleted %+v", got)
	}
	row, err := record.Addons(w.Store).Get(t.Context(), record.AddonKey(ekstest.Account, ekstest.Region, "ironman-2022",
		"vpc-cni"))
	if err == nil {
		err = record.Addons(w.Store).Delete(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	cli.Run(nil, slices.Concat([]string{"wait"}, of("addon-deleted"))...)
	cli.Refused("ResourceNotFoundException", "No addon: vpc-cni found in cluster: ironman-2022",
		of("describe-addon")...)
}
