import Box from "@cloudscape-design/components/box";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { colors, dotColors, dotNames, kindColors, kindNames } from "./colors";

/** Legend says what the colors of the map mean. */
export function Legend() {
  const keys = (names: Record<string, string>, of: Record<string, string>, radius: number) =>
    Object.entries(names).map(([key, name]) => (
      <Box key={key} fontSize="body-s">
        <svg width={10} height={10} aria-hidden="true">
          <rect width={10} height={10} rx={radius} style={{ fill: of[key], stroke: colors.secondary }} />
        </svg>{" "}
        {name}
      </Box>
    ));
  return (
    <SpaceBetween direction="horizontal" size="m">
      {keys(kindNames, kindColors, 1)}
      {keys(dotNames, dotColors, 5)}
    </SpaceBetween>
  );
}
