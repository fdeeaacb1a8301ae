import {
  EC2Client,
  type Instance,
  RebootInstancesCommand,
  StartInstancesCommand,
  StopInstancesCommand,
  TerminateInstancesCommand,
} from "@aws-sdk/client-ec2";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import { useState } from "react";
import { useAwsChange } from "../../aws/queries";
import { DeleteModal } from "../../components/DeleteModal";
import { type InstanceAction, mayBe } from "./instances";

const actions: { id: InstanceAction; text: string }[] = [
  { id: "start", text: "Start instance" },
  { id: "stop", text: "Stop instance" },
  { id: "reboot", text: "Reboot instance" },
  { id: "terminate", text: "Terminate (delete) instance" },
];

const list = (ids: string[] | undefined) => ids?.join(", ") ?? "";

/** InstanceActions starts, stops, reboots and terminates instances. */
export function InstanceActions({ instances }: { instances: Instance[] }) {
  const [terminating, setTerminating] = useState<string[]>();
  const start = useAwsChange(EC2Client, StartInstancesCommand, {
    attempt: (input) => `Start ${list(input.InstanceIds)}`,
    success: (input) => `Starting ${list(input.InstanceIds)}.`,
  });
  const stop = useAwsChange(EC2Client, StopInstancesCommand, {
    attempt: (input) => `Stop ${list(input.InstanceIds)}`,
    success: (input) => `Stopping ${list(input.InstanceIds)}.`,
  });
  const reboot = useAwsChange(EC2Client, RebootInstancesCommand, {
    attempt: (input) => `Reboot ${list(input.InstanceIds)}`,
    success: (input) => `Rebooting ${list(input.InstanceIds)}.`,
  });
  const terminate = useAwsChange(EC2Client, TerminateInstancesCommand, {
    attempt: (input) => `Terminate ${list(input.InstanceIds)}`,
    success: (input) => `Terminating ${list(input.InstanceIds)}.`,
    quiet: true,
  });
  const InstanceIds = instances.map((i) => i.InstanceId ?? "");
  const act = (action: string) => {
    switch (action as InstanceAction) {
      case "start":
        return start.mutate({ InstanceIds });
      case "stop":
        return stop.mutate({ InstanceIds });
      case "reboot":
        return reboot.mutate({ InstanceIds });
      case "terminate":
        return setTerminating(InstanceIds);
    }
  };
  return (
    <>
      <ButtonDropdown
        disabled={instances.length === 0}
        items={actions.map(({ id, text }) => ({ id, text, disabled: !instances.every((i) => mayBe(id, i)) }))}
        onItemClick={({ detail }) => act(detail.id)}
      >
        Instance state
      </ButtonDropdown>
      {terminating !== undefined && (
        <DeleteModal
          what={terminating.length === 1 ? "instance" : "instances"}
          name={terminating.join(", ")}
          word="terminate"
          onDismiss={() => setTerminating(undefined)}
          onDelete={() => terminate.mutateAsync({ InstanceIds: terminating })}
        >
          Volumes with delete on termination are deleted too. An Auto Scaling group replaces an instance that it has
          lost: to have fewer nodes, scale the node group.
        </DeleteModal>
      )}
    </>
  );
}
