import { VolumesTable } from "./volumes";

/** VolumesPage lists the volumes of the region. */
export default function VolumesPage() {
  return <VolumesTable title="Volumes" variant="full-page" />;
}
