/** Two profiles against each other. */

import type { ReactElement } from "react";
import { Empty } from "../parts/states";

export function CompareView(): ReactElement {
  return <Empty title="Compare">Choose two profiles of the same type.</Empty>;
}
