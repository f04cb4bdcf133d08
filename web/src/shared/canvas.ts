/** Match a canvas to the resolution of the screen; returns whether it changed and so is empty. */
export function sharpened(canvas: HTMLCanvasElement, context: CanvasRenderingContext2D): boolean {
  const ratio = devicePixelRatio;
  const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
  if (canvas.width === width && canvas.height === height) return false;
  [canvas.width, canvas.height] = [width, height];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return true;
}
